"""A figure over seeds: its mean, its spread, the t-interval of the mean, and how all this is written."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tribayes._text import minus

NOT_RUN = "not run"

# Two-sided 95 % quantiles of Student's t with 1, 2, … degrees of freedom; beyond them the last, a bit too wide.
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
_ROUNDING = 1e-9  # the mean of figures that are exactly at a limit may come out a bit beside it


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation over so many seeds; a single seed has no spread."""

    mean: float
    std: float | None
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """None where there are no values: nothing was run."""
        if not values:
            return None
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))

    @property
    def half_width(self) -> float | None:
        """Half the 95 % t-interval of the mean; a single seed has none."""
        if self.std is None:
            return None
        return _T95[min(self.count - 1, len(_T95)) - 1] * self.std / math.sqrt(self.count)

    @property
    def bounds(self) -> tuple[float, float]:
        """The 95 % t-interval of the mean; for a single seed the whole line."""
        half = math.inf if self.half_width is None else self.half_width
        return self.mean - half, self.mean + half

    @property
    def sign(self) -> int | None:
        """1 where the whole t-interval lies above 0, −1 where it lies below, else 0; None for a single seed."""
        if self.half_width is None:
            return None
        if abs(self.mean) <= self.half_width + _ROUNDING:
            return 0
        return 1 if self.mean > 0 else -1

    def above(self, limit: float) -> Spread:
        """How far the figure is above a limit."""
        return Spread(self.mean - limit, self.std, self.count)

    def below(self, limit: float) -> Spread:
        """How far it is below."""
        return Spread(limit - self.mean, self.std, self.count)


def number(value: Spread | float | None, digits: int = 4) -> str:
    """ "0.0213 ± 0.0008", "0.0213" for a single seed or a plain number, "not run"."""
    return NOT_RUN if value is None else _written(value, digits, 1)


def percent(value: Spread | float | None, digits: int = 2) -> str:
    """The same of a share, "0.70 ± 0.03 %"."""
    return NOT_RUN if value is None else f"{_written(value, digits, 100)} %"


def counted(value: Spread | float | None) -> str:
    """The same of a count: "9,668", "9,668.3 ± 4.2"."""
    if isinstance(value, Spread) and value.std is None:
        value = value.mean
    return number(value, 0 if isinstance(value, int | float) and value == round(value) else 1)


def interval(value: Spread | None, digits: int = 4, scale: float = 1, unit: str = "") -> str:
    """The mean with its 95 % t-interval: "−0.37 [−0.68, −0.06]"; without it for a single seed."""
    if value is None:
        return NOT_RUN
    mean = _written(value.mean, digits, scale) + unit
    if value.std is None:
        return mean
    lower, upper = (_written(bound, digits, scale) for bound in value.bounds)
    return f"{mean} [{lower}, {upper}]"


def _written(value: Spread | float, digits: int, scale: float) -> str:
    if not isinstance(value, Spread):
        return minus(f"{scale * value:,.{digits}f}")
    mean = minus(f"{scale * value.mean:,.{digits}f}")
    return mean if value.std is None else f"{mean} ± {scale * value.std:,.{digits}f}"
