"""Predictions against the truth, as small tables: the paper's Tables I, III, IV and VI in one object.

A summary is the one place that says in words what its numbers are: terminals, pages and reports show its rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from torch import Tensor

from tribayes._errors import is_number, refusal, wrong_type
from tribayes._text import format_table, level_text, number, percent
from tribayes.prediction import metrics


def origin(samples: int | None) -> str:
    """Where a prediction comes from, in words; 0 samples are one pass of moments, None is one plain network.

    >>> origin(200), origin(1), origin(0), origin(None)
    ('200 sampled networks', '1 sampled network', 'one pass of moments', 'one network')
    """
    if samples is None:
        return "one network"
    return f"{samples:,} sampled network{'' if samples == 1 else 's'}" if samples else "one pass of moments"


class ScoreRow(NamedTuple):
    """One line of a table of scores."""

    quantity: str
    value: str
    meaning: str


class CountRow(NamedTuple):
    """One line of a table of certain and uncertain predictions."""

    level: str
    prediction: str  # "correct" or "wrong"
    certain: int
    uncertain: int


COUNT_HEADER = ("level", "prediction", "quite certain", "uncertain")


@dataclass(frozen=True)
class Counts:
    """Certain and uncertain, among the correct and among the wrong predictions."""

    correct_certain: int
    correct_uncertain: int
    wrong_certain: int
    wrong_uncertain: int

    @classmethod
    def of(cls, certain: Tensor, correct: Tensor) -> Counts:
        """Counted from two flags per example."""
        return cls(
            int((correct & certain).sum()),
            int((correct & ~certain).sum()),
            int((~correct & certain).sum()),
            int((~correct & ~certain).sum()),
        )


@dataclass(frozen=True)
class ClassificationSummary:
    """How good N predictions are. Prints as two tables; `as_dict` is plain numbers.

    Example:
        >>> mean, targets = torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([0, 1])
        >>> certain, entropy = {0.95: torch.tensor([True, False])}, torch.tensor([0.33, 0.67])
        >>> print(ClassificationSummary.of(mean, targets, certain, entropy, samples=200))
        200 sampled networks
        --------------------------  -----------------------
        test error                  50.00 % (1 of 2)
        negative log likelihood     0.5108 nats per example
        Brier score                 0.3700
        expected calibration error  35.00 %
        AUROC of errors by entropy  1.0000
        <BLANKLINE>
        level  prediction  quite certain  uncertain
        -----  ----------  -------------  ---------
        95 %   correct                 1          0
        95 %   wrong                   0          1
    """

    examples: int
    samples: int | None  # networks drawn; 0 for one pass of moments, None for one plain network
    error: float  # share of wrong labels
    nll: float  # nats per example
    brier: float
    ece: float
    error_auroc: float | None  # entropy as a sign of error; None where all or none are wrong
    counts: Mapping[float, Counts]

    @classmethod
    def of(
        cls, mean: Tensor, targets: Tensor, certain: Mapping[float, Tensor], uncertainty: Tensor, samples: int | None
    ) -> ClassificationSummary:
        """The scores of mean probabilities (N, C), with the examples that are quite certain at each level."""
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

    @classmethod
    def from_dict(cls, scores: Mapping[str, Any]) -> ClassificationSummary:
        """The summary that was stored, by `as_dict` or as the evaluation of a run, also after a way through JSON.

        An evaluation has other names: `examples_tested`, `auroc_errors`, and `certain` for the counts. Without counts
        or number of samples it is that of one plain network.

        >>> stored = {"examples_tested": 200, "error": 0.02, "nll": 0.07, "brier": 0.03, "ece": 0.01,
        ...           "auroc_errors": 0.97}
        >>> print(ClassificationSummary.from_dict(stored))
        one network
        --------------------------  -----------------------
        test error                  2.00 % (4 of 200)
        negative log likelihood     0.0700 nats per example
        Brier score                 0.0300
        expected calibration error  1.00 %
        AUROC of errors by entropy  0.9700
        """
        if not isinstance(scores, Mapping):
            raise wrong_type("scores", scores, "map names to numbers", _REMEDY)
        examples_name = "examples_tested" if "examples_tested" in scores else "examples"
        auroc_name = "auroc_errors" if "auroc_errors" in scores else "error_auroc"
        counts_name = "certain" if "certain" in scores else "counts"
        summary = cls(
            examples=_stored_count(scores, examples_name),
            samples=None if scores.get("samples") is None else _stored_count(scores, "samples"),
            error=_stored_number(scores, "error", highest=1.0),
            nll=_stored_number(scores, "nll"),
            brier=_stored_number(scores, "brier", highest=2.0),
            ece=_stored_number(scores, "ece", highest=1.0),
            error_auroc=None if scores.get(auroc_name, 0) is None else _stored_number(scores, auroc_name, highest=1.0),
            counts={},
        )
        correct, wrong = summary.examples - summary.wrong, summary.wrong
        return replace(summary, counts=_stored_counts(counts_name, scores.get(counts_name, {}), correct, wrong))

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers by name; `counts` is level → the four counts."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "counts"}
        return plain | {"counts": {level: dict(vars(counts)) for level, counts in self.counts.items()}}

    @property
    def wrong(self) -> int:
        """How many labels are wrong."""
        return round(self.error * self.examples)

    def rows(self) -> list[ScoreRow]:
        """Every score with its value as text, and what it means."""
        auroc = "-" if self.error_auroc is None else number(self.error_auroc, 4)
        wrong = f"{percent(self.error, 2)} ({self.wrong:,} of {self.examples:,})"
        return [
            ScoreRow("test error", wrong, "share of wrong labels"),
            ScoreRow(
                "negative log likelihood",
                f"{number(self.nll, 4)} nats per example",
                "surprise at the true class, 0 is best",
            ),
            ScoreRow("Brier score", number(self.brier, 4), "squared distance from the truth, 0 is best, 2 worst"),
            ScoreRow("expected calibration error", percent(self.ece, 2), "mean distance of confidence and accuracy"),
            ScoreRow(
                "AUROC of errors by entropy",
                auroc,
                "chance that a wrong label is less sure than a right one, 1 is best",
            ),
        ]

    def count_rows(self) -> list[CountRow]:
        """Two rows per level: certain and uncertain among the correct, and among the wrong."""
        rows = []
        for level, counts in self.counts.items():
            rows.append(CountRow(level_text(level), "correct", counts.correct_certain, counts.correct_uncertain))
            rows.append(CountRow(level_text(level), "wrong", counts.wrong_certain, counts.wrong_uncertain))
        return rows

    def __str__(self) -> str:
        scores = format_table([origin(self.samples), ""], [row[:2] for row in self.rows()])
        return f"{scores}\n\n{format_table(COUNT_HEADER, self.count_rows())}" if self.counts else scores


@dataclass(frozen=True)
class Coverage:
    """How many observations fell into their interval, and how wide these were on average."""

    covered: float
    width: float


@dataclass(frozen=True)
class RegressionSummary:
    """How good N predicted values are. Prints as a table; `as_dict` is plain numbers.

    Example:
        >>> mean, targets = torch.tensor([[1.0], [2.0]]), torch.tensor([[1.5], [2.0]])
        >>> intervals = {0.95: (mean - 0.4, mean + 0.4)}
        >>> print(RegressionSummary.of(mean, targets, torch.tensor([-1.0, -0.5]), intervals, samples=200))
        200 sampled networks, 2 examples
        --------------------------------  ------------------------
        root mean square error            0.3536
        log predictive density            -0.7500 nats per example
        covered at 95 %                   50.0 % (mean width 0.8)
    """

    examples: int
    samples: int
    rmse: float
    log_likelihood: float  # mean log predictive density, nats per example
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
        """The scores of means (N, D), with the bounds of the observation interval at each level."""
        coverage = {
            level: Coverage(
                float(((lower <= targets) & (targets <= upper)).double().mean()), float((upper - lower).mean())
            )
            for level, (lower, upper) in intervals.items()
        }
        rmse = float((mean - targets).square().mean().sqrt())
        return cls(len(targets), samples, rmse, float(log_density.mean()), coverage)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers by name; `coverage` is level → share covered and mean width."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "coverage"}
        return plain | {"coverage": {level: dict(vars(value)) for level, value in self.coverage.items()}}

    def rows(self) -> list[ScoreRow]:
        """Every score with its value as text, and what it means."""
        density = f"{number(self.log_likelihood, 4)} nats per example"
        covered = [
            ScoreRow(
                f"covered at {level_text(level)}",
                f"{percent(value.covered, 1)} (mean width {value.width:.4g})",
                f"share of observations inside their interval, {level_text(level)} is best",
            )
            for level, value in self.coverage.items()
        ]
        return [
            ScoreRow("root mean square error", f"{self.rmse:.4g}", "distance of means and observations, 0 is best"),
            ScoreRow("log predictive density", density, "of the observations, larger is better"),
            *covered,
        ]

    def __str__(self) -> str:
        header = [f"{origin(self.samples)}, {self.examples:,} examples", ""]
        return format_table(header, [row[:2] for row in self.rows()])


_REMEDY = "the file was changed by hand or is damaged; evaluate again"


def _stored_number(scores: Mapping[str, Any], name: str, highest: float = math.inf) -> float:
    """A finite number in [0, highest], which all scores of a classification are."""
    value = _stored(scores, name)
    if not is_number(value):
        raise wrong_type(name, value, "be a number", _REMEDY)
    if not (math.isfinite(value) and 0 <= value <= highest):
        limits = "be finite and at least 0" if highest == math.inf else f"lie in [0, {highest:g}]"
        raise refusal(name, value, limits, _REMEDY)
    return float(value)


def _stored_count(scores: Mapping[str, Any], name: str) -> int:
    value = _stored(scores, name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(name, value, "be a whole number", _REMEDY)
    if value < 0:
        raise refusal(name, value, "be at least 0", _REMEDY)
    return value


def _stored_counts(name: str, stored: object, correct: int, wrong: int) -> dict[float, Counts]:
    """Level → counts, which add up to the correct and the wrong labels."""
    if not isinstance(stored, Mapping):
        raise wrong_type(name, stored, "map levels to counts", _REMEDY)
    found = {}
    for level, plain in stored.items():
        place = f"{name}[{level!r}]"
        if not isinstance(plain, Mapping):
            raise wrong_type(place, plain, "map names to counts", _REMEDY)
        counts = Counts(*(_stored_count(plain, kind) for kind in Counts.__dataclass_fields__))
        sums = counts.correct_certain + counts.correct_uncertain, counts.wrong_certain + counts.wrong_uncertain
        if sums != (correct, wrong):
            raise refusal(place, vars(counts), f"add up to {correct:,} correct and {wrong:,} wrong", _REMEDY)
        found[_stored_level(name, level)] = counts
    return found


def _stored_level(name: str, level: object) -> float:
    """A level as a number: after a way through JSON it is text."""
    try:
        value = float(level) if isinstance(level, str | float) else math.nan
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise refusal(name, level, "have levels between 0 and 1", _REMEDY)
    return value


def _stored(scores: Mapping[str, Any], name: str) -> Any:
    if name not in scores:
        raise refusal("scores", sorted(map(str, scores)), f"hold {name!r}", _REMEDY)
    return scores[name]
