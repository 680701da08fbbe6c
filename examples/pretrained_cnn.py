"""Fine-tuning a pretrained convolutional network: plain features, then a Bayesian network on 60 images.

Pretrained here on the digits 0 to 4, so that nothing is downloaded; the task is to tell 5 to 9 apart.
"""

# %%
from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import nn

import tribayes as tb
from tribayes.data import load_digits

STEPS = 60 if os.environ.get("TRIBAYES_SMALL") else 200
PICTURE = Path("runs/gallery/pretrained_cnn.png")


def network() -> nn.Sequential:
    features = [nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*features, nn.Linear(128, 5))


# %% [markdown]
# Pretraining: an ordinary network and an ordinary loop.

# %%
torch.manual_seed(0)
digits = load_digits()
early = digits.train_labels < 5
images, labels = digits.train_images[early], digits.train_labels[early]
pretrained = network()
plain = torch.optim.Adam(pretrained.parameters(), lr=0.003)
for _ in range(STEPS):
    rows = torch.randint(len(images), (128,))
    plain.zero_grad()
    nn.functional.cross_entropy(pretrained(images[rows]), labels[rows]).backward()
    plain.step()

# %% [markdown]
# The task: sixty images of other digits. A new head; the features start where pretraining left them, and their prior
# is centred there.

# %%
late = (digits.train_labels >= 5).nonzero().squeeze(1)[:60]
x, y = digits.train_images[late], digits.train_labels[late] - 5
pretrained[6] = nn.Linear(128, 5)
prior: dict[str, tb.Prior | tb.RelativePrior] = {"6.*": tb.RelativePrior(), "*": tb.Prior(loc="pretrained", scale=0.1)}
model = tb.to_bayesian(pretrained, prior=prior)
elbo = tb.ELBO(tb.Categorical(), data_size=len(x))
optimizer = torch.optim.Adam(tb.parameter_groups(model, lr={"6.*": 0.01, "*": 0.0005}))
tb.fit(model, elbo, [(x, y)], optimizer, epochs=STEPS, progress=False)

# %%
asked = digits.test_labels >= 5
truth = digits.test_labels[asked] - 5
pred = tb.predict(model, digits.test_images[asked], progress=False)
print(pred.summary(truth))

# %% [markdown]
# Errors gather among the images it is least sure of.

# %%
ax = tb.plots.risk_coverage_curve(pred, truth)
PICTURE.parent.mkdir(parents=True, exist_ok=True)
ax.figure.savefig(PICTURE, dpi=110, bbox_inches="tight")
