"""A battery for standard normals: moments, Kolmogorov and Smirnov's test, runs, correlations, the largest."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy import special, stats
from torch import Tensor

from tests.statistics.bits import even, normal

LAGS = (*range(1, 17), 32, 64, 128, 256, 1024)
_CELLS = 64  # as likely as each other, for pairs


def battery(values: Tensor) -> dict[str, float]:
    """The p-values of all tests for many normals in their order."""
    x = values.double()
    square = (x.square() - 1) / math.sqrt(2)
    return {
        "mean": normal(_score(x)),
        "variance": _variance(x),
        "third moment": normal(_score((x**3 - 3 * x) / math.sqrt(6))),
        "fourth moment": normal(_score((x**4 - 6 * x.square() + 3) / math.sqrt(24))),
        "Kolmogorov and Smirnov": kolmogorov(x),
        "runs of signs": sign_runs(x),
        "runs up and down": monotone_runs(x),
        "correlations": correlations(x),
        "correlations of squares": correlations(square),
        "pairs": pairs(x),
        "largest": largest(x),
    }


def _score(terms: Tensor) -> float:
    """√n times the mean of independent terms of mean 0 and variance 1."""
    return float(terms.sum()) / math.sqrt(len(terms))


def _variance(x: Tensor) -> float:
    law = stats.chi2(len(x))
    statistic = float(x.square().sum())
    return float(min(1.0, 2 * min(law.sf(statistic), law.cdf(statistic))))


def kolmogorov(x: Tensor) -> float:
    """√n sup |F_n − Φ|, by its asymptotic law."""
    below = torch.special.ndtr(x.sort().values)
    steps = torch.arange(len(x) + 1, dtype=torch.float64) / len(x)
    distance = max(float((steps[1:] - below).max()), float((below - steps[:-1]).max()))
    return float(special.kolmogorov(math.sqrt(len(x)) * distance))


def sign_runs(x: Tensor) -> float:
    """Changes of sign from one to the next."""
    positive = x > 0
    changes, count = int((positive[1:] != positive[:-1]).sum()), len(x) - 1
    return normal((2 * changes - count) / math.sqrt(count))


def monotone_runs(x: Tensor) -> float:
    """How often rising turns to falling or back: runs number (2n − 1)/3 with variance (16n − 29)/90."""
    rising = x[1:] > x[:-1]
    runs = 1 + int((rising[1:] != rising[:-1]).sum())
    return normal((runs - (2 * len(x) - 1) / 3) / math.sqrt((16 * len(x) - 29) / 90))


def correlations(x: Tensor) -> float:
    """With those some places later, at 21 distances together."""
    scores = [_score(x[lag:] * x[:-lag]) for lag in LAGS if lag < len(x) // 4]
    return float(stats.chi2(len(scores)).sf(sum(score**2 for score in scores)))


def pairs(x: Tensor) -> float:
    """A normal and the next, each in one of 64 cells as likely as each other."""
    cell = (torch.special.ndtr(x) * _CELLS).long().clamp(max=_CELLS - 1)[: len(x) // 2 * 2]
    return even(torch.bincount(_CELLS * cell[::2] + cell[1::2], minlength=_CELLS**2).numpy().astype(np.int64))


def largest(x: Tensor) -> float:
    """The largest absolute value, too large or too small for so many."""
    inside = math.exp(len(x) * math.log1p(-math.erfc(float(x.abs().max()) / math.sqrt(2))))
    return min(1.0, 2 * min(inside, 1 - inside))


def largest_correlation(rows: Tensor) -> float:
    """Of all pairs of rows: the p-value of the largest |r| √n among so many."""
    products = (rows @ rows.T / math.sqrt(rows.shape[1])).triu(1)
    count = len(rows) * (len(rows) - 1) // 2
    return -math.expm1(count * math.log1p(-normal(float(products.abs().max()))))
