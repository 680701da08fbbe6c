"""Predictions against the truth, as small tables: the paper's Tables I, III, IV and VI in one object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from tribayes._text import format_table
from tribayes.prediction import metrics


def origin(samples: int) -> str:
    """Where a prediction comes from, in words; 0 samples are `method="moments"`."""
    return f"{samples} sampled networks" if samples else "one pass of moments"


@dataclass(frozen=True)
class Counts:
    """Certain and uncertain, among the correct and among the wrong predictions."""

    correct_certain: int
    correct_uncertain: int
    wrong_certain: int
    wrong_uncertain: int

    @classmethod
    def of(cls, certain: Tensor, correct: Tensor) -> Counts:
        return cls(
            int((correct & certain).sum()),
            int((correct & ~certain).sum()),
            int((~correct & certain).sum()),
            int((~correct & ~certain).sum()),
        )


@dataclass(frozen=True)
class ClassificationSummary:
    """How good N predictions are. Prints as two tables; `as_dict` is plain numbers."""

    examples: int
    samples: int
    error: float  # share of wrong labels
    nll: float  # nats an example
    brier: float
    ece: float
    error_auroc: float | None  # entropy as a sign of error; None where all or none are wrong
    counts: Mapping[float, Counts]

    @classmethod
    def of(
        cls, mean: Tensor, targets: Tensor, certain: Mapping[float, Tensor], uncertainty: Tensor, samples: int
    ) -> ClassificationSummary:
        correct = mean.argmax(-1) == targets
        return cls(
            examples=len(targets),
            samples=samples,
            error=float((~correct).double().mean()),
            nll=metrics.negative_log_likelihood(mean, targets),
            brier=metrics.brier_score(mean, targets),
            ece=metrics.calibration_error(mean, targets),
            error_auroc=metrics.auroc_or_none(uncertainty, ~correct),
            counts={level: Counts.of(flags, correct) for level, flags in certain.items()},
        )

    def as_dict(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "counts"}
        return plain | {"counts": {level: dict(vars(counts)) for level, counts in self.counts.items()}}

    def __str__(self) -> str:
        wrong = round(self.error * self.examples)
        rows: list[list[object]] = [
            ["test error", f"{100 * self.error:.2f} % ({wrong} of {self.examples:,})"],
            ["negative log likelihood", f"{self.nll:.4f} nats"],
            ["Brier score", f"{self.brier:.4f}"],
            ["expected calibration error", f"{100 * self.ece:.2f} %"],
            ["AUROC of errors by entropy", "-" if self.error_auroc is None else f"{self.error_auroc:.4f}"],
        ]
        body = []
        for level, counts in self.counts.items():
            name = f"{100 * level:g} %"
            body.append([name, "correct", counts.correct_certain, counts.correct_uncertain])
            body.append([name, "wrong", counts.wrong_certain, counts.wrong_uncertain])
        score = format_table([origin(self.samples), ""], rows)
        return score + "\n\n" + format_table(["level", "prediction", "quite certain", "uncertain"], body)


@dataclass(frozen=True)
class Coverage:
    """How many observations fell into their interval, and how wide these were on average."""

    covered: float
    width: float


@dataclass(frozen=True)
class RegressionSummary:
    """How good N predicted values are. Prints as a table; `as_dict` is plain numbers."""

    examples: int
    samples: int
    rmse: float
    log_likelihood: float  # mean log predictive density, nats an example
    coverage: Mapping[float, Coverage]

    @classmethod
    def of(
        cls,
        mean: Tensor,
        targets: Tensor,
        log_density: Tensor,
        intervals: Mapping[float, tuple[Tensor, Tensor]],
        samples: int,
    ) -> RegressionSummary:
        coverage = {
            level: Coverage(
                float(((lower <= targets) & (targets <= upper)).double().mean()), float((upper - lower).mean())
            )
            for level, (lower, upper) in intervals.items()
        }
        rmse = float((mean - targets).square().mean().sqrt())
        return cls(len(targets), samples, rmse, float(log_density.mean()), coverage)

    def as_dict(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "coverage"}
        return plain | {"coverage": {level: dict(vars(value)) for level, value in self.coverage.items()}}

    def __str__(self) -> str:
        rows: list[list[object]] = [
            ["root mean square error", f"{self.rmse:.4g}"],
            ["log predictive density", f"{self.log_likelihood:.4f} nats"],
        ]
        rows += [
            [f"covered at {100 * level:g} %", f"{100 * value.covered:.1f} % (mean width {value.width:.4g})"]
            for level, value in self.coverage.items()
        ]
        return format_table([f"{origin(self.samples)}, {self.examples:,} examples", ""], rows)
