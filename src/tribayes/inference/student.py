"""The distribution function of Student's t, which torch does not have, by the continued fraction of the beta function.

    F(t) = ½ I_x(ν/2, ½),     x = ν / (ν + t²),     for t ≤ 0, and by symmetry for t > 0

I is the regularised incomplete beta function. Its fraction converges fast for x below (a + 1) / (a + b + 2); above, the
identity I_x(a, b) = 1 − I_{1−x}(b, a) is used. Tails keep their digits: nothing is subtracted from 1 there.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_TERMS = 10_000  # about √ν are needed
_TINY = 1e-300  # in place of a zero that would be divided by


def student_cdf(t: Tensor, df: float) -> Tensor:
    """P(T ≤ t) for `df` > 0 degrees of freedom, in float64.

    >>> student_cdf(torch.tensor([-1.0, 0.0, 1.0]), df=1.0)  # Cauchy: ½ + arctan(t)/π
    tensor([0.2500, 0.5000, 0.7500], dtype=torch.float64)
    """
    t = t.double()
    a, square = df / 2, t.square()
    inside = torch.where(square.isinf(), 0.0, df / (df + square))  # x
    outside = torch.where(square.isinf(), 1.0, square / (df + square))  # 1 − x, without cancellation
    far = inside < (a + 1) / (a + 2.5)
    tail = torch.where(
        far,
        _beta(a, 0.5, torch.where(far, inside, 0.0), torch.where(far, outside, 1.0)),
        1 - _beta(0.5, a, torch.where(far, 0.0, outside), torch.where(far, 1.0, inside)),
    )
    return torch.where(t <= 0, tail / 2, 1 - tail / 2)


def _beta(a: float, b: float, x: Tensor, rest: Tensor) -> Tensor:
    """I_x(a, b) for small x, with rest = 1 − x."""
    size = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    log_front = size + a * x.log() + b * rest.log()
    return (log_front.exp() * _fraction(a, b, x) / a).where(x > 0, 0.0)


def _fraction(a: float, b: float, x: Tensor) -> Tensor:
    """The continued fraction by Lentz's method, two of its terms per round, until none changes any more."""
    numerator, denominator = torch.ones_like(x), _inverse(1 - (a + b) * x / (a + 1))
    value = denominator
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            denominator = _inverse(1 + term * denominator)
            numerator = _away_from_zero(1 + term / numerator)
            change = numerator * denominator
            value = value * change
        if bool(((change - 1).abs() <= 4 * torch.finfo(torch.float64).eps).all()):
            break
    return value


def _inverse(value: Tensor) -> Tensor:
    return 1 / _away_from_zero(value)


def _away_from_zero(value: Tensor) -> Tensor:
    return torch.where(value.abs() < _TINY, _TINY, value)
