"""A figure over seeds: its mean, its spread, and whether two figures differ by more than that."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

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
