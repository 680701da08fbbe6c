"""The risk-coverage curve shows the errors that remain among those kept."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from tests.plots.cases import constant_classes, noisy_targets, random_classes
from tribayes.plots import risk_coverage_curve
from tribayes.plots.style import INKS


def test_the_curve_counts_errors_from_the_surest_on() -> None:
    pred = constant_classes([[0.7, 0.3], [0.9, 0.1], [0.6, 0.4], [0.8, 0.2]])  # surest: 1, 3, 0, 2
    ax = risk_coverage_curve(pred, torch.tensor([0, 0, 1, 1]))  # 3 and 2 are wrong
    curve, mark = ax.lines
    assert curve.get_xdata() == pytest.approx([0.25, 0.5, 0.75, 1])
    assert curve.get_ydata() == pytest.approx([0, 1 / 2, 1 / 3, 1 / 2])
    assert mark.get_xydata().tolist() == [[1, 0.5]]  # all are quite certain, half of them wrong
    area, explained = (text.get_text() for text in ax.get_legend().get_texts())
    assert area == "area 0.33"
    assert explained == "mark: quite certain at 95 %"


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_the_mark_is_what_is_quite_certain(level: float) -> None:
    pred = random_classes()
    targets = noisy_targets(pred)
    sure, wrong = pred.certain(level), pred.label != targets
    mark = risk_coverage_curve(pred, targets, level=level).lines[1]
    assert mark.get_xdata() == pytest.approx([float(sure.double().mean())])
    assert mark.get_ydata() == pytest.approx([float(wrong[sure].double().mean())])


def test_without_certain_predictions_there_is_no_mark() -> None:
    pred = random_classes(sharpness=0.01)
    assert not pred.certain(0.95).any()
    assert len(risk_coverage_curve(pred, pred.label).lines) == 1


def test_several_predictions_are_told_apart_without_colour() -> None:
    named = {name: random_classes(seed=seed) for seed, name in enumerate(["one", "two $", "three $"])}
    ax = risk_coverage_curve(named, named["one"].label, score="confidence")
    curves = ax.lines[::2]
    assert len({curve.get_linestyle() for curve in curves}) == 3
    assert [mark.get_marker() for mark in ax.lines[1::2]] == [ink.marker for ink in INKS[:3]]
    for curve, pred in zip(curves, named.values(), strict=True):
        wrong = (pred.label != named["one"].label).numpy()
        expected = np.cumsum(wrong[np.argsort(1 - pred.confidence.numpy(), kind="stable")]) / np.arange(1, 61)
        assert curve.get_ydata() == pytest.approx(expected)
    names = [text.get_text().split(":")[0] for text in ax.get_legend().get_texts()]
    assert names == ["one", r"two \$", r"three \$", "mark"]
    assert "1 − confidence" in ax.get_title(loc="left")


def test_axes_are_labelled_and_the_given_one_is_used() -> None:
    _, ax = plt.subplots()
    pred = random_classes()
    assert risk_coverage_curve(pred, pred.label, ax=ax) is ax
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("share of predictions kept", "error among those kept")
    assert ax.get_ylim()[0] == 0


def test_bad_input_is_refused_by_name() -> None:
    pred = random_classes()
    with pytest.raises(ValueError, match=r"`score` .* must be one of"):
        risk_coverage_curve(pred, pred.label, score="doubt")
    with pytest.raises(TypeError, match=r"`pred` .* must be a ClassPredictive or a dict of them"):
        risk_coverage_curve({}, pred.label)
    with pytest.raises(TypeError, match=r"`pred` .* must be a ClassPredictive"):
        risk_coverage_curve({"a": pred.mean}, pred.label)
    with pytest.raises(ValueError, match=r"`targets` .* must have the shape"):
        risk_coverage_curve(pred, pred.label[1:])
