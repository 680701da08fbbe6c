"""Predictions against the truth, as small tables: the paper's Tables I, III, IV and VI in one object.

A summary is the one place that says in words what its numbers are: terminals, pages and reports show its rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from torch import Tensor

from tribayes._errors import is_number, refusal, wrong_type
from tribayes._text import figures, format_table, level_text, number, percent
from tribayes.prediction import metrics
from tribayes.prediction.chance import confidence_remarks, coverage_remarks

COUNT_HEADER = ("level", "prediction", "quite certain", "uncertain")

_IN_A_RUN = {"examples": "examples_tested", "error_auroc": "auroc_errors", "counts": "certain"}
_REMEDY = "the file was changed by hand or is damaged; evaluate again"


def origin(samples: int | None) -> str:
    """Where a prediction comes from, in words; 0 samples are one pass of moments, None is one plain network."""
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


@dataclass(frozen=True)
class Counts:
    """Certain and uncertain, among the correct and among the wrong predictions."""

    correct_certain: int
    correct_uncertain: int
    wrong_certain: int
    wrong_uncertain: int


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
    remarks: tuple[str, ...] = ()  # what is wrong beyond chance, in words

    @classmethod
    def of(
        cls,
        mean: Tensor,
        targets: Tensor,
        certain: Mapping[float, Tensor],
        uncertainty: Tensor,
        samples: int | None,
        example: Tensor | None = None,
    ) -> ClassificationSummary:
        """The scores of mean probabilities (N, C), with the examples that are quite certain at each level.

        Of pixels and tokens `example` (N,) says to which example each belongs.
        """
        correct = mean.argmax(-1) == targets
        counts = {}
        for level, sure in certain.items():
            numbers = (int((right & flags).sum()) for right in (correct, ~correct) for flags in (sure, ~sure))
            counts[level] = Counts(*numbers)
        return cls(
            examples=len(targets),
            samples=samples,
            error=float((~correct).double().mean()),
            nll=metrics.negative_log_likelihood(mean, targets),
            brier=metrics.brier_score(mean, targets),
            ece=metrics.calibration_error(mean, targets),
            error_auroc=metrics.auroc_or_none(uncertainty, ~correct),
            counts=counts,
            remarks=tuple(confidence_remarks(mean.amax(-1), correct, example)),
        )

    @classmethod
    def from_dict(cls, scores: Mapping[str, Any]) -> ClassificationSummary:
        """The summary that was stored, by `as_dict` or as the evaluation of a run, also after a way through JSON.

        An evaluation has other names: `examples_tested`, `auroc_errors`, and `certain` for the counts. Without counts
        or number of samples it is that of one plain network.

        >>> stored = {"examples_tested": 200, "error": 0.02, "nll": 0.07, "brier": 0.03, "ece": 0.01,
        ...           "auroc_errors": 0.97}
        >>> ClassificationSummary.from_dict(stored).rows()[0].value
        '2.00 % (4 of 200)'
        """
        if not isinstance(scores, Mapping):
            raise wrong_type("scores", scores, "map names to numbers", _REMEDY)
        names = {own: in_a_run if in_a_run in scores else own for own, in_a_run in _IN_A_RUN.items()}
        auroc, counts = names["error_auroc"], names["counts"]
        examples, error = _stored(scores, names["examples"], int), _stored(scores, "error", highest=1.0)
        return cls(
            examples=examples,
            samples=None if scores.get("samples") is None else _stored(scores, "samples", int),
            error=error,
            nll=_stored(scores, "nll"),
            brier=_stored(scores, "brier", highest=2.0),
            ece=_stored(scores, "ece", highest=1.0),
            error_auroc=None if scores.get(auroc, 0) is None else _stored(scores, auroc, highest=1.0),
            counts=_stored_counts(counts, scores.get(counts, {}), examples, wrong=round(error * examples)),
            remarks=_stored_remarks(scores.get("remarks", [])),
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers by name; `counts` is level → the four counts."""
        return asdict(self)

    @property
    def wrong(self) -> int:
        """How many labels are wrong."""
        return round(self.error * self.examples)

    def rows(self) -> list[ScoreRow]:
        """Every score with its value as text, and what it means."""
        wrong = f"{percent(self.error, 2)} ({self.wrong:,} of {self.examples:,})"
        surprise = f"{number(self.nll, 4)} nats per example"
        auroc = "-" if self.error_auroc is None else number(self.error_auroc, 4)
        told_apart = "chance that a wrong label is less sure than a right one, 1 is best"
        return [
            ScoreRow("test error", wrong, "share of wrong labels"),
            ScoreRow("negative log likelihood", surprise, "surprise at the true class, 0 is best"),
            ScoreRow("Brier score", number(self.brier, 4), "squared distance from the truth, 0 is best, 2 worst"),
            ScoreRow("expected calibration error", percent(self.ece, 2), "mean distance of confidence and accuracy"),
            ScoreRow("AUROC of errors by entropy", auroc, told_apart),
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
        counts = [format_table(COUNT_HEADER, self.count_rows())] if self.counts else []
        return "\n\n".join([scores, *counts, *self.remarks])


@dataclass(frozen=True)
class Coverage:
    """How many observations fell into their interval, and how wide these were on average."""

    covered: float
    width: float


@dataclass(frozen=True)
class RegressionSummary:
    """How good N predicted values are. Prints as a table; `as_dict` is plain numbers.

    Example:
        >>> covered = {0.95: Coverage(covered=0.5, width=0.8)}
        >>> print(RegressionSummary(examples=2, samples=200, rmse=0.3536, log_likelihood=-0.75, coverage=covered))
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
    counts: bool = False  # whether values are whole numbers, whose intervals hold at least their level

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is wrong beyond chance, in words."""
        found = [(level, one.covered) for level, one in self.coverage.items()]
        judged = [(level, covered) for level, covered in found if covered < level or not self.counts]
        return tuple(text for level, covered in judged for text in coverage_remarks(level, covered, self.examples))

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers by name; `coverage` is level → share covered and mean width."""
        return asdict(self)

    def rows(self) -> list[ScoreRow]:
        """Every score with its value as text, and what it means."""
        density = f"{number(self.log_likelihood, 4)} nats per example"
        kind = "probability" if self.counts else "density"
        rows = [
            ScoreRow("root mean square error", figures(self.rmse), "distance of means and observations, 0 is best"),
            ScoreRow(f"log predictive {kind}", density, "of the observations, larger is better"),
        ]
        for level, found in self.coverage.items():
            share = f"{percent(found.covered, 1)} (mean width {figures(found.width)})"
            best = f"{level_text(level)} {'or a little more ' if self.counts else ''}is best"
            meaning = f"share of observations inside their interval, {best}"
            rows.append(ScoreRow(f"covered at {level_text(level)}", share, meaning))
        return rows

    def __str__(self) -> str:
        header = [f"{origin(self.samples)}, {self.examples:,} examples", ""]
        return "\n\n".join([format_table(header, [row[:2] for row in self.rows()]), *self.remarks])


def _stored(scores: Mapping[str, Any], name: str, kind: type = float, highest: float = math.inf) -> Any:
    """A finite number in [0, highest], which all scores of a classification are."""
    if name not in scores:
        raise refusal("scores", sorted(map(str, scores)), f"hold {name!r}", _REMEDY)
    value = scores[name]
    if not is_number(value) or (kind is int and not isinstance(value, int)):
        raise wrong_type(name, value, f"be a {'whole ' if kind is int else ''}number", _REMEDY)
    if not (math.isfinite(value) and 0 <= value <= highest):
        limits = "be finite and at least 0" if highest == math.inf else f"lie in [0, {highest:g}]"
        raise refusal(name, value, limits, _REMEDY)
    return kind(value)


def _stored_counts(name: str, stored: object, examples: int, wrong: int) -> dict[float, Counts]:
    """Level → counts, which add up to the correct and the wrong labels. After a way through JSON levels are text."""
    if not isinstance(stored, Mapping):
        raise wrong_type(name, stored, "map levels to counts", _REMEDY)
    found = {}
    for key, plain in stored.items():
        place, level = f"{name}[{key!r}]", math.nan
        if not isinstance(plain, Mapping):
            raise wrong_type(place, plain, "map names to counts", _REMEDY)
        counts = Counts(*(_stored(plain, kind, int) for kind in Counts.__dataclass_fields__))
        sums = counts.correct_certain + counts.correct_uncertain, counts.wrong_certain + counts.wrong_uncertain
        if sums != (examples - wrong, wrong):
            requirement = f"add up to {examples - wrong:,} correct and {wrong:,} wrong"
            raise refusal(place, vars(counts), requirement, _REMEDY)
        with suppress(TypeError, ValueError):  # no number: refused below
            level = float(key)
        if not 0 < level < 1:
            raise refusal(name, key, "have levels between 0 and 1", _REMEDY)
        found[level] = counts
    return found


def _stored_remarks(stored: object) -> tuple[str, ...]:
    if not isinstance(stored, list | tuple) or not all(isinstance(remark, str) for remark in stored):
        raise wrong_type("remarks", stored, "be a list of sentences", _REMEDY)
    return tuple(stored)
