"""Enough samples: draw until the decisions no longer change."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tribayes._errors import refusal
from tribayes.prediction.quantiles import certain, check_level, quantiles, tails
from tribayes.prediction.source import average


@dataclass(frozen=True)
class AutoSamples:
    """How `samples="auto"` decides: start with `first` networks, double until stable, stop at `cap`.

    Stable means that, between half of the samples and all of them, at most the share `tolerance` of examples changed
    its decision: the label, or whether it is certain at `level`. Regression has no such decision; there the bounds of
    the intervals must have moved by less than `tolerance` of the intervals' mean width, on average.

    Example:
        >>> pred = tribayes.predict(model, x, samples=AutoSamples(tolerance=0.001, cap=5000))
        >>> pred.sample_count
    """

    tolerance: float = 0.005
    cap: int = 1600
    level: float = 0.95
    first: int = 50

    def __post_init__(self) -> None:
        check_level(self.level)
        if not 0 < self.tolerance < 1:
            raise refusal("tolerance", self.tolerance, "lie strictly between 0 and 1", "it is a share of examples")
        if not 2 <= self.first <= self.cap:
            raise refusal("cap", self.cap, f"be at least `first` (={self.first}), and that at least 2", "raise it")

    def next_count(self, count: int) -> int:
        return min(2 * count, self.cap)

    def enough(self, samples: Tensor, classes: bool) -> bool:
        """Whether to stop after these samples, (S, N, C)."""
        if len(samples) >= self.cap:
            return True
        half = samples[: len(samples) // 2]
        change = self._changed_decisions if classes else self._moved_bounds
        return change(half, samples) <= self.tolerance

    def _changed_decisions(self, half: Tensor, whole: Tensor) -> float:
        (label, sure), (new_label, new_sure) = self._decisions(half), self._decisions(whole)
        return float(((label != new_label) | (sure != new_sure)).double().mean())

    def _decisions(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        label = average(samples).argmax(-1)
        lower, upper = quantiles(samples, tails(self.level))
        return label, certain(lower, upper, label)

    def _moved_bounds(self, half: Tensor, whole: Tensor) -> float:
        before, after = quantiles(half, tails(self.level)), quantiles(whole, tails(self.level))
        width = (after[1] - after[0]).mean()
        return float((after - before).abs().mean() / width) if width > 0 else 0.0
