"""A curve with a hole in its data: the band of the function, the wider one of an observation, and a warning.

120 noisy points of a sine, none of them in the middle. Look at the hole: the band need not open there, because noise
that is proportional to the weights grows with the activations and not with the distance from the data.
"""

# %%
from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import nn

import tribayes as tb

EPOCHS = 400 if os.environ.get("TRIBAYES_SMALL") else 2000
PICTURE = Path("runs/gallery/regression.png")

# %% [markdown]
# The data: two clouds, and nothing between −0.7 and 0.7.

# %%
torch.manual_seed(0)
x = torch.cat([torch.linspace(-2.5, -0.7, 60), torch.linspace(0.7, 2.5, 60)])
y = (2 * x).sin() + 0.15 * torch.randn(120)

# %% [markdown]
# One hidden layer of 100 is enough. The noise of the observations is learned together with the weights.

# %%
model = tb.to_bayesian(nn.Sequential(nn.Linear(1, 100), nn.Tanh(), nn.Linear(100, 1)))
likelihood = tb.Gaussian(noise=0.5, learned=True)
elbo = tb.ELBO(likelihood, data_size=len(x))
optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.02, likelihood=likelihood))
tb.fit(model, elbo, [(x[:, None], y[:, None])], optimizer, epochs=EPOCHS, progress=False)
print(f"noise: learned {likelihood.noise.item():.3f}, true 0.150")

# %% [markdown]
# Ask it everywhere, also where it has seen nothing.

# %%
grid = torch.linspace(-4, 4, 161)
pred = tb.predict(model, grid[:, None], progress=False)
for place in (-1.5, 0.0, 3.5):
    nearest = int((grid - place).abs().argmin())
    print(f"at {place:+.1f}: the function is known to ± {2 * pred.epistemic[nearest].sqrt().item():.2f}")

# %%
ax = tb.plots.regression_band(grid, pred, observed=(x, y), truth=(2 * grid).sin())
ax.set(xlabel="x", ylabel="y", ylim=(-2.5, 2.5))
PICTURE.parent.mkdir(parents=True, exist_ok=True)
ax.figure.savefig(PICTURE, dpi=110, bbox_inches="tight")
