"""A regression that is fitted while one looks: points on a line, a small Bayesian network, its predictive band."""

from __future__ import annotations

import math
from time import monotonic
from typing import Annotated

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from tribayes._own_randomness import lent
from tribayes.inference import ELBO, Gaussian, TrainingStep, parameter_groups
from tribayes.nn.convert import to_bayesian
from tribayes.posterior import Prior
from tribayes.prediction import Ensemble, RegressionPredictive

MOST_POINTS = 200

_STEPS, _RATE = 250, 0.02
_PRIOR = 0.5
_HIDDEN = 32
_SAMPLES = 200
_GRID = 121
_LOOK_EVERY = 25  # steps between two looks at the clock
_SMALLEST, _LARGEST = 1e-6, 1e6  # spreads of x or y that are scaled to 1: beyond, a point is a slip

Coordinate = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]


class Points(BaseModel):
    """What is to be fitted, and how much the divergence from the prior counts."""

    model_config = ConfigDict(extra="forbid")

    points: Annotated[list[tuple[Coordinate, Coordinate]], Field(min_length=2, max_length=MOST_POINTS)]
    kl_weight: Annotated[float, Field(ge=1e-4, le=10, description="1 is the posterior; less trusts the data more.")] = 1
    level: Annotated[float, Field(ge=0.5, le=0.999)] = 0.95
    left: Coordinate = -1.0
    right: Coordinate = 1.0


class Band(BaseModel):
    """The fit at `x`: the function, its credible interval, and an interval for a new observation."""

    x: list[float]
    mean: list[float]
    function: Annotated[list[tuple[float, float]], Field(description="Where the function lies, at the level.")]
    observation: Annotated[list[tuple[float, float]], Field(description="Where a new point lies, at the level.")]
    noise: Annotated[float, Field(description="The learned standard deviation of points about the function.")]
    level: float


class OutOfTime(Exception):
    """The fit was given up."""


def fitted(given: Points, deadline: float = math.inf) -> Band:
    """Fit, and predict on a grid from `left` to `right`; given up where `monotonic()` passes the deadline.

    >>> band = fitted(Points(points=[(-0.5, 0.0), (0.0, 0.1), (0.5, 0.0)]))
    >>> len(band.x) == len(band.mean) == len(band.observation)
    True
    """
    x, y = torch.tensor(given.points, dtype=torch.float32).unsqueeze(-1).unbind(1)
    middle, spread = y.mean(), y.std(correction=0).clamp(_SMALLEST, _LARGEST)
    grid = torch.linspace(given.left, given.right, _GRID).unsqueeze(-1)
    width = max(given.right - given.left, _SMALLEST)
    to_unit = 2 * math.pi / width  # one bend of the network for a bend of the eye
    prediction = _trained(x * to_unit, (y - middle) / spread, given.kl_weight, deadline).predict(grid * to_unit)
    assert isinstance(prediction, RegressionPredictive)
    lines = [prediction.mean, *prediction.interval(given.level), *prediction.observation_interval(given.level)]
    mean, *bounds = (_plain(middle + spread * line) for line in lines)
    return Band(
        x=_plain(grid),
        mean=mean,
        function=list(zip(*bounds[:2], strict=True)),
        observation=list(zip(*bounds[2:], strict=True)),
        noise=float(spread) * prediction.noise,
        level=given.level,
    )


def _trained(x: Tensor, y: Tensor, kl_weight: float, deadline: float) -> Ensemble:
    """Networks of the posterior of a small one, always from the same start: a slider changes nothing but itself."""
    with lent([torch.Generator().manual_seed(0)]):  # torch initialises by its global one
        network = nn.Sequential(nn.Linear(1, _HIDDEN), nn.SiLU(), nn.Linear(_HIDDEN, _HIDDEN), nn.SiLU())
        # a prior with a scale: with it the weight of the divergence shows, as a band that widens beyond the points
        model = to_bayesian(network.append(nn.Linear(_HIDDEN, 1)), prior=Prior(scale=_PRIOR), tau=0.1)
    likelihood = Gaussian(noise=0.3, learned=True)
    elbo = ELBO(likelihood, data_size=len(x), kl_weight=kl_weight)
    optimizer = torch.optim.Adam(parameter_groups(model, lr=_RATE, likelihood=likelihood))
    step = TrainingStep(model, elbo, optimizer, generator=torch.Generator().manual_seed(0))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, _STEPS)
    for number in range(_STEPS):
        if number % _LOOK_EVERY == 0 and monotonic() > deadline:
            raise OutOfTime
        step(x, y)
        schedule.step()
    return Ensemble(model, _SAMPLES, likelihood=likelihood)


def _plain(values: Tensor) -> list[float]:
    flat: list[float] = values.flatten().double().round(decimals=5).tolist()
    return flat
