"""The networks of all splits trained at once, as benchmarks/uci does."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

import tribayes as tb
from benchmarks.coverage.cases import Case, Recipe
from benchmarks.uci.recipe import Recipe as Batching
from benchmarks.uci.training import batches, stack, unstack_
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
    objectives = []
    for case, seed in zip(cases, seeds, strict=True):
        torch.manual_seed(seed)
        objectives.append(Objective(case, recipe, kl_weight))
    inputs = torch.stack([case.train.inputs for case in cases])
    targets = torch.stack([_shaped(case.train.targets) for case in cases])
    # benchmarks.uci's stacking takes any module; its types name the objective of that study
    stacked: Any = stack(objectives)  # type: ignore[arg-type]
    parameters = dict(stacked.named_parameters())
    losses = vmap(lambda values, x, y: functional_call(stacked, values, (x, y)), randomness="different")
    groups = tb.parameter_groups(
        stacked.model, lr=recipe.lr, likelihood=stacked.likelihood, weight_decay=recipe.weight_decay
    )
    optimizer = torch.optim.AdamW(groups)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, recipe.steps)
    for rows in batches(inputs.shape[1], Batching(steps=recipe.steps, batch_size=recipe.batch)):
        tb.stabilise_(stacked)
        optimizer.zero_grad(set_to_none=True)
        losses(parameters, inputs[:, rows], targets[:, rows]).sum().backward()
        optimizer.step()
        schedule.step()
        advance()
    unstack_(stacked, objectives)  # type: ignore[arg-type]  # as above
    return objectives


def _shaped(targets: Tensor) -> Tensor:
    """Values as the network gives them, (N, 1); classes as they are."""
    return targets.unsqueeze(-1) if targets.is_floating_point() else targets
