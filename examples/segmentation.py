"""Segmentation of synthetic shapes: a class for every pixel, and a map of doubt beside it.

Discs and squares on noise. Doubt should lie along the edges, and where shapes meet.
"""

# %%
from __future__ import annotations

import os
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import tribayes as tb

SMALL = bool(os.environ.get("TRIBAYES_SMALL"))
STEPS, SIDE = (40, 24) if SMALL else (300, 32)
PICTURE = Path("runs/gallery/segmentation.png")


# %%
def scenes(count: int) -> tuple[Tensor, Tensor]:
    """Images (N, 1, H, W) and a class for every pixel: 0 ground, 1 disc, 2 square."""
    row, column = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    labels = torch.zeros(count, SIDE, SIDE, dtype=torch.long)
    for label in labels:
        for kind in (1, 2):
            r, c = torch.randint(5, SIDE - 5, (2,))
            size = int(torch.randint(3, 7, ()))
            up, side = (row - r).abs(), (column - c).abs()
            label[(up.square() + side.square() < size**2) if kind == 1 else (torch.maximum(up, side) < size)] = kind
    grey = torch.tensor([0.0, 0.6, 1.0])[labels]
    return (grey + 0.4 * torch.randn(grey.shape)).unsqueeze(1), labels


torch.manual_seed(0)
x, y = scenes(60)
test_x, test_y = scenes(20)

# %% [markdown]
# A few convolutions; the answer has three logits at every pixel.

# %%
net = nn.Sequential(
    *(nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.Conv2d(16, 16, 5, padding=2), nn.ReLU()),
    *(nn.Conv2d(16, 16, 5, padding=2), nn.ReLU(), nn.Conv2d(16, 3, 1)),
)
model = tb.to_bayesian(net)
step = tb.TrainingStep(
    model, tb.ELBO(tb.Categorical(), data_size=60), torch.optim.Adam(tb.parameter_groups(model, lr=0.003))
)
for _ in range(STEPS):
    rows = torch.randint(60, (16,))
    step(x[rows], y[rows])

# %%
pred = tb.predict(model, test_x, 50, progress=False)
wrong = ~pred.correct(test_y)
print(f"{wrong.double().mean():.1%} of the pixels are wrong")
print(f"entropy finds them with AUROC {tb.metrics.auroc(pred.entropy.flatten(), wrong.flatten()):.2f}")

# %%
figure = Figure(figsize=(10, 2.8), layout="constrained")
panels = {"image": test_x[3, 0], "truth": test_y[3], "answer": pred.label[3], "doubt, nats": pred.entropy[3]}
for ax, (title, values) in zip(figure.subplots(1, 4), panels.items(), strict=True):
    ax.imshow(values.numpy(), cmap="magma" if "doubt" in title else "gray")
    ax.set(title=title, xticks=[], yticks=[])
PICTURE.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(PICTURE, dpi=110)
