"""Figures of intervals and sets, and what chance alone makes of them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

Figures = dict[str, float]  # coverage, width, worst


def interval_figures(bounds: tuple[Tensor, Tensor], truth: Tensor, groups: Tensor, unit: float = 1.0) -> Figures:
    """Of intervals (lower, upper) for values (N,), their width in units of the data."""
    lower, upper = bounds
    covered = (lower <= truth) & (truth <= upper)
    return _figures(covered, (upper - lower).double() * unit, groups)


def set_figures(sets: Tensor, truth: Tensor, groups: Tensor) -> Figures:
    """Of sets (N, C) for classes (N,); their width is the number of classes."""
    covered = sets.gather(-1, truth.unsqueeze(-1)).squeeze(-1)
    return _figures(covered, sets.sum(-1).double(), groups)


def _figures(covered: Tensor, width: Tensor, groups: Tensor) -> Figures:
    shares = [float(covered[groups == group].double().mean()) for group in groups.unique()]
    return {"coverage": float(covered.double().mean()), "width": float(width.mean()), "worst": min(shares)}


def quartiles(values: Tensor) -> Tensor:
    """(N,): 0 for the smallest quarter of the values, 3 for the largest; by rank, so that equal values are shared out.

    >>> quartiles(torch.tensor([0.3, 0.1, 0.2, 0.9])).tolist()
    [2, 0, 1, 3]
    """
    ranks = values.argsort(stable=True).argsort()
    return ranks * 4 // len(values)


def credible_sets(probabilities: Tensor, level: float) -> Tensor:
    """(N, C) bool: the fewest classes whose probabilities sum to `level`. What the posterior itself calls 90 % sure.

    >>> credible_sets(torch.tensor([[0.2, 0.7, 0.1], [0.95, 0.03, 0.02]]), 0.9).int().tolist()
    [[1, 1, 0], [1, 0, 0]]
    """
    ordered, order = probabilities.double().sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered
    chosen = before < level - 1e-7  # float32 probabilities that sum to the level do so but for rounding
    return torch.zeros_like(chosen).scatter(-1, order, chosen)


def coverage_error(level: float, rows: int) -> float:
    """The standard deviation of a share of `rows` that has the probability `level`: binomial."""
    return math.sqrt(level * (1 - level) / rows)


def threshold_error(level: float, held: int) -> float:
    """By how much the true coverage of a split conformal threshold varies with its held-out rows: a beta law's."""
    return math.sqrt(level * (1 - level) / (held + 2))


def expected_conformal(level: float, held: int) -> float:
    """The mean coverage of a split conformal threshold, scores without ties: its rank is a whole number.

    >>> expected_conformal(0.95, 19), round(expected_conformal(0.95, 36), 3)
    (0.95, 0.973)
    """
    return math.ceil((held + 1) * level - 1e-9) / (held + 1)


def distinct_rows(pool: int, test: int, splits: int) -> float:
    """How many different rows are expected to be tested, where every split draws `test` of a pool.

    >>> distinct_rows(100, 100, 5), distinct_rows(100, 50, 2)
    (100.0, 75.0)
    """
    return pool * (1 - (1 - test / pool) ** splits)


def expected_worst(level: float, rows: int, groups: int) -> float:
    """The mean of the smallest of `groups` shares, each of `rows` that are all covered with probability `level`.

    >>> round(expected_worst(0.9, 25, 4), 3), expected_worst(0.9, 10, 1)
    (0.837, 0.9)
    """
    above, total = 1.0, 0.0  # P(share > k / rows), and E min = Σ P(min > k / rows) / rows
    for count in range(rows):
        above -= math.exp(_log_binomial(rows, count, level))
        total += max(above, 0.0) ** groups
    return round(total / rows, 9)


def _log_binomial(rows: int, count: int, level: float) -> float:
    """ln P(`count` of `rows`), also where the number of choices overflows."""
    choices = math.lgamma(rows + 1) - math.lgamma(count + 1) - math.lgamma(rows - count + 1)
    return choices + count * math.log(level) + (rows - count) * math.log1p(-level)
