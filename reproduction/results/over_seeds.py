"""A figure over seeds: its mean, its spread, whether two differ by more than that, and how it is written."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tribayes._text import minus

NOT_RUN = "not run"

_ERRORS = 2.0  # standard errors that a difference must exceed


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
    def standard_error(self) -> float | None:
        return None if self.std is None else self.std / math.sqrt(self.count)


def compare(one: Spread, other: Spread) -> int | None:
    """-1 where `one` is smaller, 1 where it is larger, 0 where the seeds cannot tell; None with fewer than two seeds.

    A difference counts when it exceeds two standard errors of the difference of the means.
    """
    if one.standard_error is None or other.standard_error is None:
        return None
    difference = one.mean - other.mean
    if abs(difference) <= _ERRORS * math.hypot(one.standard_error, other.standard_error):
        return 0
    return 1 if difference > 0 else -1


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


def _written(value: Spread | float, digits: int, scale: float) -> str:
    if not isinstance(value, Spread):
        return minus(f"{scale * value:,.{digits}f}")
    mean = minus(f"{scale * value.mean:,.{digits}f}")
    return mean if value.std is None else f"{mean} ± {scale * value.std:,.{digits}f}"
