"""The summary of a classification: its numbers are the brute-force ones, in plain types, and it prints them."""

import json
import re
from typing import Any

import pytest
import torch
from torch import Tensor

import tribayes as tb
from tests.prediction import brute
from tests.prediction.models import dirichlet, predictive, values
from tribayes.prediction import ClassificationSummary
from tribayes.prediction.summary import origin

COUNT, CLASSES = 120, 3
LEVELS = (0.3, 0.6, 0.95)


def labelled() -> tuple[tb.ClassPredictive, Tensor]:
    """Predictions of which some are certain, some right, in all combinations."""
    samples = dirichlet(40, COUNT, CLASSES, concentration=3) + 2 * dirichlet(1, COUNT, CLASSES, 1, 0.4)
    pred = predictive(samples / samples.sum(-1, keepdim=True))
    targets = torch.where(torch.arange(COUNT) % 4 == 0, (pred.label + 1) % CLASSES, pred.label)
    return pred, targets


def test_scores_are_the_brute_force_ones() -> None:
    pred, targets = labelled()
    summary = pred.summary(targets)
    mean = pred.samples.numpy().mean(0)
    right = [brute.label(row) == y for row, y in zip(mean.tolist(), targets.tolist(), strict=True)]
    assert (summary.examples, summary.samples) == (COUNT, 40)
    assert summary.error == sum(not r for r in right) / COUNT == 0.25
    assert summary.nll == pytest.approx(brute.negative_log_likelihood(mean, targets.tolist()), rel=1e-12)
    assert summary.brier == pytest.approx(brute.brier(mean, targets.tolist()), rel=1e-12)
    assert summary.ece == pytest.approx(brute.calibration_error(mean.max(1).tolist(), right, 15), rel=1e-5)
    total, _ = brute.entropies(pred.samples.numpy())
    assert summary.error_auroc == pytest.approx(brute.auroc(total, [not r for r in right]), abs=1e-6)


def test_counts_are_the_brute_force_ones() -> None:
    pred, targets = labelled()
    summary = pred.summary(targets, LEVELS)
    labels = [brute.label(row) for row in pred.mean.tolist()]
    right = [label == y for label, y in zip(labels, targets.tolist(), strict=True)]
    assert list(summary.counts) == list(LEVELS)
    for level in LEVELS:
        sure = brute.certain(*brute.interval(pred.samples.numpy(), level), labels)
        assert vars(summary.counts[level]) == brute.counts(sure, right)
    assert min(vars(summary.counts[0.6]).values()) > 0  # every combination occurs


def test_the_default_levels_are_the_papers() -> None:
    pred, targets = labelled()
    assert list(pred.summary(targets).counts) == [0.95, 0.99]


def test_it_is_plain_numbers() -> None:
    pred, targets = labelled()
    summary = pred.summary(targets, LEVELS)
    plain = json.loads(json.dumps(summary.as_dict()))
    counts = plain.pop("counts")
    assert plain.pop("remarks") == list(summary.remarks)
    assert counts == {str(level): vars(summary.counts[level]) for level in LEVELS}
    assert plain == {
        name: getattr(summary, name) for name in ("examples", "samples", "error", "nll", "brier", "ece", "error_auroc")
    }


def test_it_prints_its_numbers() -> None:
    pred, targets = labelled()
    summary = pred.summary(targets, (0.6,))
    counts = summary.counts[0.6]
    lines = [line.split() for line in str(summary).splitlines()]
    assert ["60", "%", "correct", str(counts.correct_certain), str(counts.correct_uncertain)] in lines
    assert ["60", "%", "wrong", str(counts.wrong_certain), str(counts.wrong_uncertain)] in lines
    text = " ".join(str(summary).split())
    assert "40 sampled networks" in text
    assert "test error 25.00 % (30 of 120)" in text
    assert f"negative log likelihood {summary.nll:.4f} nats per example" in text
    assert f"Brier score {summary.brier:.4f}" in text
    assert f"expected calibration error {100 * summary.ece:.2f} %" in text
    assert f"AUROC of errors by entropy {summary.error_auroc:.4f}" in text


@pytest.mark.parametrize("shift", [0, 1])
def test_all_right_or_all_wrong_has_no_auroc(shift: int) -> None:
    pred, _ = labelled()
    summary = pred.summary((pred.label + shift) % CLASSES)
    assert summary.error == shift
    assert summary.error_auroc is None
    assert "AUROC of errors by entropy -" in " ".join(str(summary).split())
    assert json.loads(json.dumps(summary.as_dict()))["error_auroc"] is None


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_labels_may_be_any_integers(dtype: torch.dtype) -> None:
    pred, targets = labelled()
    assert pred.summary(targets.to(dtype)) == pred.summary(targets)


def test_no_levels_at_all() -> None:
    pred, targets = labelled()
    summary = pred.summary(targets, levels=())
    assert summary.counts == {}
    assert "test error" in str(summary)
    assert "quite certain" not in str(summary)


def test_rows_are_what_it_prints_and_say_what_they_mean() -> None:
    pred, targets = labelled()
    summary = pred.summary(targets, LEVELS)
    text = " ".join(str(summary).split())
    for row in summary.rows():
        assert f"{row.quantity} {row.value}" in text
        assert row.meaning
    assert [row.value for row in summary.rows()][:2] == ["25.00 % (30 of 120)", f"{summary.nll:.4f} nats per example"]
    for row in summary.count_rows():
        assert f"{row.level} {row.prediction} {row.certain} {row.uncertain}" in text
    assert [row[:2] for row in summary.count_rows()[:2]] == [("30 %", "correct"), ("30 %", "wrong")]


def test_a_regression_has_rows_too() -> None:
    summary = values(torch.zeros(20, 4, 1) + torch.linspace(-1, 1, 20).reshape(20, 1, 1)).summary(torch.zeros(4))
    text = " ".join(str(summary).split())
    names = ["root mean square error", "log predictive density", "covered at 95 %", "covered at 99 %"]
    assert [row.quantity for row in summary.rows()] == names
    for row in summary.rows():
        assert f"{row.quantity} {row.value}" in text
        assert row.meaning


def test_large_values_are_written_as_people_write_them() -> None:
    """Prices of houses: an error of 2.331e+04 is read by nobody."""
    draws = 1e5 * (torch.zeros(20, 4, 1) + torch.linspace(-1, 1, 20).reshape(20, 1, 1))
    rows = values(draws).summary(torch.full((4,), 23_307.0)).rows()
    assert rows[0].value == "23,310"
    assert not any("e+" in row.value for row in rows)


def test_it_says_where_a_prediction_comes_from() -> None:
    assert origin(1600) == "1,600 sampled networks"
    assert origin(1) == "1 sampled network"
    assert origin(0) == "one pass of moments"
    assert origin(None) == "one network"


class TestStored:
    """What was written to a file can be shown as if it had just been computed."""

    def test_there_and_back(self) -> None:
        pred, targets = labelled()
        summary = pred.summary(targets, LEVELS)
        assert ClassificationSummary.from_dict(summary.as_dict()) == summary
        assert ClassificationSummary.from_dict(json.loads(json.dumps(summary.as_dict()))) == summary

    def test_the_evaluation_of_a_run(self) -> None:
        pred, targets = labelled()
        summary = pred.summary(targets, LEVELS)
        assert ClassificationSummary.from_dict(evaluation()) == summary
        assert str(ClassificationSummary.from_dict(evaluation())) == str(summary)

    def test_one_plain_network_has_neither_samples_nor_counts(self) -> None:
        stored = {name: value for name, value in evaluation().items() if name not in ("samples", "certain", "remarks")}
        text = str(ClassificationSummary.from_dict({**stored, "auroc_errors": None}))
        assert text.startswith("one network\n")
        assert text.endswith("AUROC of errors by entropy  -")

    @pytest.mark.parametrize("name", ["examples_tested", "error", "nll", "brier", "ece", "auroc_errors"])
    def test_a_missing_number_is_named(self, name: str) -> None:
        stored = evaluation()
        del stored[name]
        own = {"examples_tested": "examples", "auroc_errors": "error_auroc"}.get(name, name)
        with pytest.raises(ValueError, match=f"^`scores` .* must hold '{own}'; the file was changed by hand"):
            ClassificationSummary.from_dict(stored)

    @pytest.mark.parametrize(
        ("change", "kind", "message"),
        [
            ({"error": "0.2"}, TypeError, "`error` (='0.2') must be a number"),
            ({"error": True}, TypeError, "`error` (=True) must be a number"),
            ({"error": 1.5}, ValueError, "`error` (=1.5) must lie in [0, 1]"),
            ({"nll": float("nan")}, ValueError, "`nll` (=nan) must be finite and at least 0"),
            ({"brier": -0.1}, ValueError, "`brier` (=-0.1) must lie in [0, 2]"),
            ({"ece": None}, TypeError, "`ece` (=None) must be a number"),
            ({"auroc_errors": 2}, ValueError, "`auroc_errors` (=2) must lie in [0, 1]"),
            ({"examples_tested": 120.0}, TypeError, "`examples_tested` (=120.0) must be a whole number"),
            ({"samples": -1}, ValueError, "`samples` (=-1) must be finite and at least 0"),
            ({"certain": [1]}, TypeError, "`certain` (=[1]) must map levels to counts"),
            ({"certain": {"0.95": 3}}, TypeError, "`certain['0.95']` (=3) must map names to counts"),
            ({"certain": {"0.95": {}}}, ValueError, "`scores` (=[]) must hold 'correct_certain'"),
        ],
    )
    def test_a_changed_number_is_named(self, change: dict[str, Any], kind: type[Exception], message: str) -> None:
        with pytest.raises(kind, match="^" + re.escape(message) + "; the file was changed by hand or is damaged"):
            ClassificationSummary.from_dict({**evaluation(), **change})

    @pytest.mark.parametrize("level", ["95 %", "1.0", "nan", 2])
    def test_a_level_that_is_none(self, level: object) -> None:
        stored = evaluation()
        stored["certain"] = {level: stored["certain"]["0.6"]}
        with pytest.raises(ValueError, match=r"^`certain` .* must have levels between 0 and 1;"):
            ClassificationSummary.from_dict(stored)

    def test_counts_must_add_up(self) -> None:
        stored = evaluation()
        stored["certain"]["0.6"]["wrong_certain"] += 1
        with pytest.raises(ValueError, match=r"^`certain\['0.6'\]` .* must add up to 90 correct and 30 wrong;"):
            ClassificationSummary.from_dict(stored)

    def test_what_is_no_table_of_scores(self) -> None:
        with pytest.raises(TypeError, match=r"^`scores` \(=\[\]\) must map names to numbers"):
            ClassificationSummary.from_dict([])


def evaluation() -> dict[str, Any]:
    """The scores of `labelled` under the names of a run's evaluation, as read from its file."""
    pred, targets = labelled()
    plain = pred.summary(targets, LEVELS).as_dict()
    names = {"examples": "examples_tested", "error_auroc": "auroc_errors", "counts": "certain"}
    return json.loads(json.dumps({names.get(name, name): value for name, value in plain.items()}))
