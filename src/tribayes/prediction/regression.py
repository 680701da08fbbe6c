"""Regression: a function with its uncertainty, and a new observation with its noise on top."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from tribayes._errors import refusal, wrong_type
from tribayes.prediction.predictive import DEFAULT_LEVELS, Predictive
from tribayes.prediction.quantiles import tails
from tribayes.prediction.samples import Drawn, Moments
from tribayes.prediction.source import Source
from tribayes.prediction.summary import RegressionSummary, origin

_BISECTIONS = 60  # halves a bracket down to float64 rounding


class RegressionPredictive(Predictive):
    """Predicted values (N, D): `interval` is for the function, `observation_interval` for a new observation.

    Example:
        >>> model, x = tribayes.to_bayesian(nn.Linear(4, 1)), torch.randn(5, 4)
        >>> pred = tribayes.predict(model, x, likelihood=tribayes.Gaussian(noise=0.1), progress=False)
        >>> lower, upper = pred.observation_interval(0.95)
    """

    def __init__(self, source: Source, origin: Drawn | Moments, noise: float) -> None:
        super().__init__(source, origin)
        self.noise = noise

    @property
    def epistemic(self) -> Tensor:
        """(N, D): variance of the function over the sampled networks."""
        return self._source.std.square()

    @property
    def aleatoric(self) -> Tensor:
        """(N, D): variance of the observation noise, the same everywhere."""
        return torch.full_like(self.mean, self.noise**2)

    @property
    def std(self) -> Tensor:
        """(N, D): standard deviation of a new observation, √(epistemic + aleatoric)."""
        return (self.epistemic + self.aleatoric).sqrt()

    def observation_interval(self, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """(lower, upper), each (N, D): an interval for a new observation.

        Exact quantiles of the mixture (1/S) Σ N(f_s, noise²), found by bisection of its distribution function.
        """
        lower, upper = (self._mixture_quantile(tail) for tail in tails(level))
        return lower, upper

    def log_density(self, targets: Tensor) -> Tensor:
        """(N,): log predictive density of the targets, ln (1/S) Σ_s N(y; f_s, noise²), summed over outputs."""
        targets = self.checked_targets(targets)
        standard = (targets - self.samples) / self.noise  # (S, N, D)
        log_normal = -0.5 * standard.square() - math.log(self.noise) - 0.5 * math.log(2 * math.pi)
        return log_normal.sum(-1).logsumexp(0) - math.log(len(self.samples))

    def summary(self, targets: Tensor, levels: Sequence[float] = DEFAULT_LEVELS) -> RegressionSummary:
        """RMSE, log predictive density, and how many observations the intervals cover. Prints as a table."""
        targets = self.checked_targets(targets)
        intervals = {level: self.observation_interval(level) for level in levels}
        return RegressionSummary.of(self.mean, targets, self.log_density(targets), intervals, self.sample_count)

    def checked_targets(self, targets: Tensor) -> Tensor:
        """The observed values as (N, D) on the CPU; (N,) is taken for one output."""
        if not isinstance(targets, Tensor):
            raise wrong_type("targets", targets, "be a tensor", "convert it with torch.tensor(y)")
        shaped = targets.cpu().to(self.mean.dtype)
        shaped = shaped.unsqueeze(-1) if shaped.ndim == 1 else shaped
        if shaped.shape != self.mean.shape:
            requirement = f"have the shape {tuple(self.mean.shape)}, one row per example"
            raise refusal("targets", targets, requirement, "check the data")
        if not torch.isfinite(shaped).all():
            raise refusal("targets", targets, "be finite", "clean the data")
        return shaped

    def _mixture_quantile(self, probability: float) -> Tensor:
        centres = self.samples.double()
        reach = self.noise * 10  # the bracket's margin: a normal is within ten deviations but for 1e-23
        low, high = centres.amin(0) - reach, centres.amax(0) + reach
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            below = torch.special.ndtr((middle - centres) / self.noise).mean(0) < probability
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return ((low + high) / 2).to(self.mean.dtype)

    @property
    def _kind(self) -> tuple[object, ...]:
        return (*super()._kind, self.noise)

    def __repr__(self) -> str:
        count, outputs = self.mean.shape
        return f"RegressionPredictive({count} examples, {outputs} outputs, {origin(self.sample_count)})"
