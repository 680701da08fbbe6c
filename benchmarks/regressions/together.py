"""Arms whose networks of all splits are trained as one stack, as in benchmarks.uci: plain, dropout, variational."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

import tribayes as tb
from benchmarks.defaults import regression
from benchmarks.defaults.plan import Arm as Law
from benchmarks.defaults.regression import NOISE, Table
from benchmarks.regressions.answers import Answers
from benchmarks.regressions.plan import (
    BATCH,
    DIAGONAL,
    DRAWS,
    DROPOUT,
    LR,
    MEAN_FIELD,
    STEPS,
    TRIDIAGONAL,
    WEIGHT_DECAY,
    Job,
)
from benchmarks.uci import training as uci
from benchmarks.uci.recipe import HIDDEN_UNITS

LAWS = {
    MEAN_FIELD: ("paper", "mean_field"),
    DIAGONAL: ("relative", "diagonal"),
    TRIDIAGONAL: ("relative", "tridiagonal"),
}


class Likelihood(nn.Module):
    """A network with or without dropout, and its learned noise: a module whose output is the loss."""

    def __init__(self, inputs: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.model = network(inputs, dropout)
        self.likelihood = tb.Gaussian(noise=NOISE, learned=True)

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        return self.likelihood.mean_nll(self.model(inputs), targets)


def network(inputs: int, dropout: float = 0.0) -> nn.Module:
    """benchmarks.uci's network; with dropout before both layers, as Gal and Ghahramani (2016) have it."""
    if not dropout:
        return uci.Network(inputs)
    layers = [nn.Linear(inputs, HIDDEN_UNITS), nn.ReLU(), nn.Dropout(dropout), nn.Linear(HIDDEN_UNITS, 1)]
    return nn.Sequential(nn.Dropout(dropout), *layers)


def trained(job: Job, tables: Sequence[Table], steps: int = STEPS) -> list[Any]:
    """A network with its likelihood for each split."""
    objectives: list[Any] = []
    for split, table in enumerate(tables):
        torch.manual_seed(job.seed(split))
        objectives.append(_objective(job, table))
    torch.manual_seed(job.seed(0))
    inputs = torch.stack([table.train.inputs for table in tables])
    targets = torch.stack([table.train.targets.unsqueeze(-1) for table in tables])

    def adamw(stacked: Any) -> torch.optim.Optimizer:
        return adamw_for(stacked.model, stacked.likelihood, decay(job))

    uci.train_together(objectives, (inputs, targets), adamw, steps, BATCH, lambda: None)
    return objectives


def _objective(job: Job, table: Table) -> nn.Module:
    rows, inputs = table.train.inputs.shape
    if job.arm in LAWS:
        prior, family = LAWS[job.arm]
        return regression.Objective(inputs, rows, Law(prior, family, job.value))
    return Likelihood(inputs, job.value if job.arm == DROPOUT else 0.0)


def decay(job: Job) -> float:
    """The one option of a plain network; otherwise that of all."""
    return job.value if job.arm.option == "weight decay" else WEIGHT_DECAY


def adamw_for(model: nn.Module, likelihood: tb.Gaussian, weight_decay: float, lr: float = LR) -> torch.optim.AdamW:
    """Decay for the weights, none for the noise."""
    if isinstance(model, tb.BayesianModule):
        groups: Any = tb.parameter_groups(model, lr, weight_decay=weight_decay, likelihood=likelihood)
    else:
        own = {"params": list(model.parameters()), "weight_decay": weight_decay}
        groups = [own, {"params": list(likelihood.parameters()), "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr)


@torch.no_grad()
def ask(objective: Any, inputs: Tensor, seed: int) -> Answers:
    """By 200 sampled networks, or by the one there is."""
    model, noise = objective.model, objective.likelihood.noise.detach().reshape(1)
    if isinstance(model, tb.BayesianModule):
        likelihood = cast(tb.Gaussian, objective.likelihood)
        pred = tb.predict(model, inputs, DRAWS, likelihood=likelihood, seed=seed, progress=False)
        means = pred.samples.squeeze(-1)
    elif any(isinstance(part, nn.Dropout) for part in model.modules()):
        torch.manual_seed(seed)
        means = torch.stack([model.train()(inputs).squeeze(-1) for _ in range(DRAWS)])
    else:
        means = model(inputs).squeeze(-1)[None]
    return Answers(means, noise.expand(len(means)))
