"""A small vision transformer on handwritten digits: attention, embeddings and all, random in every weight.

Patches of 2×2 pixels are the words. Nothing of it is written for this library.
"""

# %%
from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import tribayes as tb
from tribayes.data import load_digits

EPOCHS = 2 if os.environ.get("TRIBAYES_SMALL") else 30
PICTURE = Path("runs/gallery/vit.png")


# %%
class ViT(nn.Module):
    """8×8 pixels → 16 patches → two layers of attention → the mean of what they say."""

    def __init__(self, width: int = 48, layers: int = 2) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, kernel_size=2, stride=2)
        self.places = nn.Parameter(0.1 * torch.randn(16, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 10))

    def forward(self, images: Tensor) -> Tensor:
        words = self.patches(images).flatten(2).mT + self.places
        return self.head(self.encoder(words).mean(1))


# %% [markdown]
# Normalisation layers stay plain by default; everything else becomes random.

# %%
torch.manual_seed(0)
digits = load_digits()
model = tb.to_bayesian(ViT())
print(f"{len(model.random_names)} random tensors")
loader = DataLoader(TensorDataset(digits.train_images, digits.train_labels), batch_size=64, shuffle=True)
elbo = tb.ELBO(tb.Categorical(), data_size=len(digits.train_labels))
optimizer = torch.optim.AdamW(tb.parameter_groups(model, lr=0.003, weight_decay=0.01))
tb.fit(model, elbo, loader, optimizer, epochs=EPOCHS, progress=False)

# %%
pred = tb.predict(model, digits.test_images, 50, progress=False)
print(pred.summary(digits.test_labels))

# %% [markdown]
# The same digits turned by 90°: most are no digits any more. Does it doubt them more than upright ones?

# %%
images = digits.test_images.rot90(dims=(2, 3))
turned = tb.predict(model, images, 50, progress=False)
told = tb.metrics.out_of_distribution_auroc(pred.entropy, turned.entropy)
print(f"upright and turned are told apart by entropy with AUROC {told:.2f} (0.5 is chance)")

# %%
doubtful = int(turned.epistemic.argmax())
ax = tb.plots.output_boxplot(turned, doubtful, image=images[doubtful])
PICTURE.parent.mkdir(parents=True, exist_ok=True)
ax.figure.savefig(PICTURE, dpi=110, bbox_inches="tight")
