"""The summary of a classification: its numbers are the brute-force ones, in plain types, and it prints them."""

import json

import pytest
import torch
from torch import Tensor

import tribayes as tb
from tests.prediction import brute
from tests.prediction.models import dirichlet, predictive

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
    assert f"negative log likelihood {summary.nll:.4f} nats" in text
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
