"""The networks of all splits trained at once, as benchmarks/uci does."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn

import tribayes as tb
from benchmarks.coverage.cases import Case, Recipe
from benchmarks.uci.training import train_together
from tribayes._progress import Advance

NOISE = 0.5  # where the learned noise starts, in standard deviations of the target


class Network(nn.Sequential):
    """One hidden layer of ReLUs."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))

    def get_parameter(self, target: str) -> Any:
        # torch's own refuses the plain tensors that functional_call puts in place of the parameters
        return attrgetter(target)(self)


class Objective(nn.Module):
    """A Bayesian network together with its evidence lower bound, both with the library's defaults."""

    def __init__(self, case: Case, recipe: Recipe, kl_weight: float | str) -> None:
        super().__init__()
        rows, inputs = case.train.inputs.shape
        self.model = tb.to_bayesian(Network(inputs, recipe.hidden, recipe.outputs))
        likelihood = tb.Categorical() if recipe.outputs > 1 else tb.Gaussian(noise=NOISE, learned=True)
        self.elbo = tb.ELBO(likelihood, data_size=rows, kl_weight=kl_weight)

    @property
    def likelihood(self) -> tb.Likelihood:
        # not a second registered name: functional_call would restore a module of two names wrongly
        return self.elbo.likelihood

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        terms: tb.ELBOTerms = self.elbo(self.model, inputs, targets)
        return terms.loss


def trained(
    cases: Sequence[Case], seeds: Sequence[int], recipe: Recipe, kl_weight: float | str, advance: Advance
) -> list[Objective]:
    """A network for each case, with a start of its own; all in step."""

    def adamw(stacked: Any) -> torch.optim.Optimizer:
        own = {"likelihood": stacked.likelihood, "weight_decay": recipe.weight_decay}
        return torch.optim.AdamW(tb.parameter_groups(stacked.model, lr=recipe.lr, **own))

    objectives = []
    for case, seed in zip(cases, seeds, strict=True):
        torch.manual_seed(seed)
        objectives.append(Objective(case, recipe, kl_weight))
    inputs = torch.stack([case.train.inputs for case in cases])
    targets = torch.stack([_shaped(case.train.targets) for case in cases])
    train_together(objectives, (inputs, targets), adamw, recipe.steps, recipe.batch, advance)
    return objectives


def _shaped(targets: Tensor) -> Tensor:
    """Values as the network gives them, (N, 1); classes as they are."""
    return targets.unsqueeze(-1) if targets.is_floating_point() else targets
