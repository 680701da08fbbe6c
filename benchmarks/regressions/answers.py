"""What an arm says of some rows, and what it is worth: every arm in one form, scored by one code."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

LEVEL = 0.95  # of the intervals whose coverage is counted
FACTORS = torch.logspace(-1, 1, 81, dtype=torch.float64).tolist()  # of the noise, among which held-out rows choose

LOST = 1e9  # nats: of a network whose training lost its way


@dataclass(frozen=True)
class Answers:
    """A mixture of normals with equal shares for each row, in standard deviations of the target.

    Args:
        means: (S, N), of S sampled networks.
        noise: (S,), their standard deviations.
    """

    means: Tensor
    noise: Tensor

    @classmethod
    def together(cls, members: list[Answers]) -> Answers:
        """An ensemble: the mixture of all."""
        return cls(torch.cat([one.means for one in members]), torch.cat([one.noise for one in members]))

    def log_density(self, targets: Tensor, factor: float = 1.0) -> Tensor:
        """ln p(y) of each row, with the noise widened by a factor."""
        normal = self._normal(factor)
        return normal.log_prob(targets.double()).logsumexp(0) - math.log(len(self.means))

    def below(self, targets: Tensor, factor: float = 1.0) -> Tensor:
        """P(Y ≤ y) of each row."""
        return self._normal(factor).cdf(targets.double()).mean(0)

    def _normal(self, factor: float) -> torch.distributions.Normal:
        return torch.distributions.Normal(self.means.double(), factor * self.noise.double().unsqueeze(-1))


def nll(answers: Answers, targets: Tensor, factor: float = 1.0) -> float:
    """The mean over the rows; of answers that are no numbers, or beyond all sense, `LOST`."""
    if not answers.means.isfinite().all():
        return LOST
    return min(LOST, -float(answers.log_density(targets, factor).mean()))


def best_factor(answers: Answers, targets: Tensor) -> float:
    """The factor on the noise with the smallest NLL on these rows, which should be held-out ones."""
    return min(FACTORS, key=lambda factor: nll(answers, targets, factor))


def scores(answers: Answers, targets: Tensor, unit: float, factor: float) -> dict[str, float]:
    """In the units of the data: NLL, RMSE, how many targets 95 % intervals hold; NLL and that with the factor, too."""
    tail = (1 - LEVEL) / 2

    def held(widened: float) -> float:
        place = answers.below(targets, widened)
        return float(((place >= tail) & (place <= 1 - tail)).double().mean())

    error = answers.means.double().mean(0) - targets.double()
    return {
        "nll": nll(answers, targets) + math.log(unit),
        "rmse": float(error.square().mean().sqrt()) * unit,
        "coverage": held(1.0),
        "scaled_nll": nll(answers, targets, factor) + math.log(unit),
        "scaled_coverage": held(factor),
    }
