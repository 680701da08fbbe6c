"""Active learning: which digits should a person label next? Those about which the sampled networks disagree.

Two learners begin with the same 30 labels and buy 20 at a time: one at random, one by epistemic uncertainty.
"""

# %%
from __future__ import annotations

import os
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import tribayes as tb
from tribayes.data import load_digits

ROUNDS, EPOCHS = (2, 60) if os.environ.get("TRIBAYES_SMALL") else (8, 150)
PICTURE = Path("runs/gallery/active_learning.png")
digits = load_digits()
pool, truth = digits.train_images, digits.train_labels


# %%
def learner(known: Tensor) -> tb.BayesianModule:
    """A fresh network, trained on the images whose labels are known."""
    torch.manual_seed(0)
    model = tb.to_bayesian(nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
    elbo = tb.ELBO(tb.Categorical(), data_size=len(known))
    optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.01))
    tb.fit(model, elbo, [(pool[known], truth[known])], optimizer, epochs=EPOCHS, progress=False)
    return model


def bought(model: tb.BayesianModule, known: Tensor, by_doubt: bool, generator: torch.Generator) -> Tensor:
    """Twenty more labels."""
    wish = torch.rand(len(pool), generator=generator)
    if by_doubt:
        wish = tb.predict(model, pool, 50, progress=False).epistemic
    wish = wish.index_fill(0, known, -1)
    return torch.cat([known, wish.topk(20).indices])


# %% [markdown]
# The same start, then two ways to spend the same money.

# %%
errors: dict[str, list[float]] = {}
labels = [30 + 20 * round_ for round_ in range(ROUNDS)]
for name, by_doubt in (("at random", False), ("by disagreement", True)):
    generator = torch.Generator().manual_seed(1)
    known = torch.randperm(len(pool), generator=torch.Generator().manual_seed(0))[:30]
    errors[name] = []
    for _ in labels:
        model = learner(known)
        summary = tb.predict(model, digits.test_images, 50, progress=False).summary(digits.test_labels)
        errors[name].append(100 * summary.error)
        known = bought(model, known, by_doubt, generator)
    print(f"{name}: " + ", ".join(f"{n} labels {error:.1f} %" for n, error in zip(labels, errors[name], strict=True)))

# %% [markdown]
# One run of each: a picture of the idea, not a measurement.

# %%
figure = Figure(figsize=(7, 3.5), layout="constrained")
ax = figure.subplots()
for name, values in errors.items():
    ax.plot(labels, values, "o-", label=name)
ax.set(xlabel="labels bought", ylabel="test error, %", ylim=(0, None))
ax.legend()
PICTURE.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(PICTURE, dpi=110)
