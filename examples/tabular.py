"""A table: how much sugar in the blood means how much diabetes, with intervals that hold.

442 patients, ten columns, from scikit-learn. Training rows, rows to set the intervals by, and rows to count on.
"""

# %%
from __future__ import annotations

import os
from pathlib import Path

import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes
from torch import nn

import tribayes as tb

EPOCHS = 60 if os.environ.get("TRIBAYES_SMALL") else 300
PICTURE = Path("runs/gallery/tabular.png")

# %% [markdown]
# Columns and target are standardised by the training rows alone.

# %%
torch.manual_seed(0)
table = load_diabetes()
order = torch.randperm(442)
x, y = (torch.tensor(values, dtype=torch.float32)[order] for values in (table.data, table.target))
train, held, test = slice(0, 250), slice(250, 350), slice(350, 442)
x = (x - x[train].mean(0)) / x[train].std(0)
centre, spread = y[train].mean(), y[train].std()
y = ((y - centre) / spread).unsqueeze(1)

# %%
model = tb.to_bayesian(nn.Sequential(nn.Linear(10, 50), nn.ReLU(), nn.Linear(50, 1)))
likelihood = tb.Gaussian(noise=0.7, learned=True)
elbo = tb.ELBO(likelihood, data_size=250)
groups = tb.parameter_groups(model, lr=0.01, weight_decay=0.01, likelihood=likelihood)
optimizer = torch.optim.AdamW(groups)
tb.fit(model, elbo, [(x[train], y[train])], optimizer, epochs=EPOCHS, progress=False)

# %% [markdown]
# As trained, intervals may miss their promise; rows that training has not seen turn them into ones that keep it.

# %%
pred = tb.predict(model, x[test], progress=False)
conformal = tb.conformalise(tb.predict(model, x[held], progress=False), y[held])


def covered(low: torch.Tensor, high: torch.Tensor) -> float:
    return ((low <= y[test]) & (y[test] <= high)).double().mean().item()


print(f"90 % intervals as trained cover {covered(*pred.observation_interval(0.9)):.0%} of 92 patients")
low, high = conformal.intervals(pred, 0.9)
print(f"90 % conformal intervals cover {covered(low, high):.0%}")

# %%
rows = pred.mean.squeeze(1).argsort()
middle, truth, low, high = ((values[rows].squeeze(1) * spread + centre) for values in (pred.mean, y[test], low, high))
figure = Figure(figsize=(8, 4), layout="constrained")
ax = figure.subplots()
ax.fill_between(range(92), low, high, alpha=0.25, label="90 % interval, conformal")
ax.plot(middle, label="prediction")
ax.plot(truth, "k.", label="truth")
ax.set(xlabel="patients, by prediction", ylabel="progression after a year")
ax.legend(loc="upper left")
PICTURE.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(PICTURE, dpi=110)
