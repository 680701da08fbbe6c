"""The networks of all splits trained at once, and tested."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

import tribayes as tb
from benchmarks.uci.recipe import HIDDEN_UNITS, LEVEL, SAMPLED_NETWORKS, SEED, Recipe
from benchmarks.uci.splits import Split, Standardised
from tribayes._progress import Advance


class Network(nn.Sequential):
    """d inputs, one hidden layer of ReLUs, one output."""

    def __init__(self, inputs: int) -> None:
        super().__init__(nn.Linear(inputs, HIDDEN_UNITS), nn.ReLU(), nn.Linear(HIDDEN_UNITS, 1))

    def get_parameter(self, target: str) -> Any:
        # torch's own refuses the plain tensors that functional_call puts in place of the parameters
        return attrgetter(target)(self)


class Objective(nn.Module):
    """A Bayesian network together with its evidence lower bound: a module whose output is the loss."""

    def __init__(self, inputs: int, rows: int, family: str, recipe: Recipe) -> None:
        super().__init__()
        prior = {"0.*": tb.Prior(scale=recipe.hidden_prior), "2.*": tb.Prior(scale=recipe.output_prior)}
        self.model = tb.to_bayesian(Network(inputs), prior=prior, tau=recipe.tau, family=family)
        likelihood = tb.Gaussian(noise=recipe.noise, learned=True)
        self.elbo = tb.ELBO(likelihood, data_size=rows, kl_weight=recipe.kl_weight, samples=recipe.samples)

    @property
    def likelihood(self) -> tb.Gaussian:
        # not a second registered name: functional_call would restore a module of two names wrongly
        return cast(tb.Gaussian, self.elbo.likelihood)

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        terms: tb.ELBOTerms = self.elbo(self.model, inputs, targets)
        return terms.loss


def train(objectives: Sequence[Objective], splits: Sequence[Split], recipe: Recipe, advance: Advance) -> None:
    """Train each objective on its split's training rows, all in step."""

    def adam(stacked: Any) -> torch.optim.Optimizer:
        own = {"correlation_lr_multiplier": recipe.correlation_lr_multiplier, "likelihood": stacked.likelihood}
        return torch.optim.Adam(tb.parameter_groups(stacked.model, lr=recipe.lr, **own))

    inputs = torch.stack([split.train_inputs for split in splits])
    targets = torch.stack([split.train_targets.unsqueeze(-1) for split in splits])
    train_together(objectives, (inputs, targets), adam, recipe.steps, recipe.batch_size, advance)


def train_together(
    objectives: Sequence[Any],
    rows: tuple[Tensor, Tensor],
    optimizer_for: Callable[[Any], torch.optim.Optimizer],
    steps: int,
    batch_size: int,
    advance: Callable[[], None],
) -> None:
    """Train networks of one shape, each on rows of its own, in the time of a few.

    For each of them a step is one of `tribayes.TrainingStep`, which a test compares; here the steps of all go through
    `torch.func.vmap`, and an optimizer that works on each number by itself (Adam, AdamW) updates them as one stack.

    Args:
        objectives: modules with a `model` and a `likelihood`, whose output is the loss.
        rows: inputs and targets, one stack for each objective.
        optimizer_for: of the stacked objectives; its rates fall to zero along half a cosine.
        batch_size: rows per step, the same ones of every stack; 0 for all.
    """
    inputs, targets = rows
    stacked = stack(objectives)
    parameters = dict(stacked.named_parameters())
    losses = vmap(lambda values, x, y: functional_call(stacked, values, (x, y)), randomness="different")
    optimizer = optimizer_for(stacked)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for chosen in batches(inputs.shape[1], steps, batch_size):
        guard_(stacked)
        optimizer.zero_grad(set_to_none=True)
        losses(parameters, inputs[:, chosen], targets[:, chosen]).sum().backward()
        optimizer.step()
        schedule.step()
        advance()
    unstack_(stacked, objectives)


def stack(objectives: Sequence[Any]) -> Any:
    """One objective whose every parameter holds those of all, along a new first axis."""
    stacked = copy.deepcopy(objectives[0])
    for name, parameter in stacked.named_parameters():
        parameter.data = torch.stack([attrgetter(name)(objective).detach() for objective in objectives])
    return stacked


@torch.no_grad()
def unstack_(stacked: nn.Module, objectives: Sequence[nn.Module]) -> None:
    """Give each objective its own values back, with the guards applied."""
    guard_(stacked)
    for name, values in stacked.named_parameters():
        for objective, value in zip(objectives, values, strict=True):
            attrgetter(name)(objective).copy_(value)


def guard_(stacked: nn.Module) -> None:
    """The guards of Bayesian networks; plain ones need none."""
    if any(isinstance(part, tb.BayesianModule) for part in stacked.modules()):
        tb.stabilise_(stacked)


def batches(rows: int, steps: int, batch_size: int) -> Iterator[Tensor | slice]:
    """As many batches as there are steps: all rows, or random ones, each once per epoch."""
    if not batch_size:
        yield from (slice(None) for _ in range(steps))
        return
    size = min(batch_size, rows)
    an_epoch = rows // size
    for step in range(steps):
        if step % an_epoch == 0:
            order = torch.randperm(rows)
        start = step % an_epoch * size
        yield order[start : start + size]


@dataclass(frozen=True)
class Figures:
    """How one split went, in the units of the data."""

    rmse: float
    log_likelihood: float  # mean over the test rows of ln p(y | x), nats
    coverage: float  # share of test rows inside their 95 % interval
    noise: float  # learned standard deviation of the observations


def assess(objective: Objective, data: Standardised, seed: int, noise_factor: float = 1.0) -> Figures:
    """Predict the test rows with sampled networks, and return to the original units."""
    likelihood = tb.Gaussian(noise=float(objective.likelihood.noise.detach()) * noise_factor)
    predictive = tb.predict(
        objective.model,
        data.split.test_inputs,
        SAMPLED_NETWORKS,
        likelihood=likelihood,
        seed=seed,
        progress=False,
    )
    summary = predictive.summary(data.split.test_targets, levels=(LEVEL,))
    return Figures(
        rmse=summary.rmse * data.target_std,
        log_likelihood=summary.log_likelihood - math.log(data.target_std),
        coverage=summary.coverage[LEVEL].covered,
        noise=float(likelihood.noise) * data.target_std,
    )


def run(splits: Sequence[Split], family: str, recipe: Recipe, advance: Advance) -> list[Figures]:
    """Train on every split and test on it."""
    data, objectives = trained(splits, family, recipe, advance)
    return [
        assess(objective, item, SEED + number, recipe.noise_factor)
        for number, (objective, item) in enumerate(zip(objectives, data, strict=True))
    ]


def trained(
    splits: Sequence[Split], family: str, recipe: Recipe, advance: Advance
) -> tuple[list[Standardised], list[Objective]]:
    """The splits in their own units, and a network trained on each."""
    data = [Standardised.of(split) for split in splits]
    objectives = []
    for number, split in enumerate(splits):
        torch.manual_seed(SEED + number)
        rows, inputs = split.train_inputs.shape
        objectives.append(Objective(inputs, rows, family, recipe))
    torch.manual_seed(SEED)
    train(objectives, [item.split for item in data], recipe, advance)
    return data, objectives
