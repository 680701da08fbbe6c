"""The reliability diagram shows accuracy, confidence and counts of its bins."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from tests.plots.cases import constant_classes, noisy_targets, random_classes
from tribayes.plots import reliability_diagram
from tribayes.prediction import metrics


def test_bars_marks_and_counts_are_those_of_the_bins() -> None:
    # confidences 0.6, 0.6, 0.9, 0.9, 0.9: one of two right, two of three right
    pred = constant_classes([[0.6, 0.4], [0.6, 0.4], [0.9, 0.1], [0.9, 0.1], [0.9, 0.1]])
    ax = reliability_diagram(pred, torch.tensor([0, 1, 0, 0, 1]), bins=4)
    bars = ax.containers[0].patches
    assert [bar.get_height() for bar in bars] == pytest.approx([1 / 2, 2 / 3])
    assert [(bar.get_x(), bar.get_width()) for bar in bars] == [(0.5, 0.25), (0.75, 0.25)]
    marks = next(c for c in ax.collections if c.get_label() == "mean confidence").get_segments()
    assert np.array(marks) == pytest.approx(np.array([[[0.5, 0.6], [0.75, 0.6]], [[0.75, 0.9], [1, 0.9]]]))
    assert [(text.get_text(), text.xy[0]) for text in ax.texts] == [("2", 0.625), ("3", 0.875)]


def test_a_share_has_its_interval() -> None:
    # Wilson's 95 % interval for 8 of 10, and for 10 of 10
    pred = constant_classes([[0.6, 0.4]] * 10 + [[0.9, 0.1]] * 10)
    ax = reliability_diagram(pred, torch.tensor([0] * 8 + [1] * 2 + [0] * 10), bins=4)
    segments = ax.containers[1].lines[2][0].get_segments()
    assert np.array(segments)[:, :, 1] == pytest.approx(np.array([[0.4902, 0.9433], [0.7225, 1.0]]), abs=1e-3)


def test_the_title_gives_the_calibration_error() -> None:
    pred = random_classes()
    targets = noisy_targets(pred)
    ax = reliability_diagram(pred, targets, bins=10)
    error = metrics.calibration_error(pred.mean, targets, 10)
    expected = f"Reliability of 60 predictions (counts on top)\nExpected calibration error {100 * error:.2f} %"
    assert ax.get_title(loc="left") == expected


def test_every_example_is_counted_and_the_diagonal_drawn() -> None:
    pred = random_classes()
    ax = reliability_diagram(pred, noisy_targets(pred))
    assert sum(int(text.get_text().replace(",", "")) for text in ax.texts) == 60
    diagonal = next(line for line in ax.lines if line.get_label() == "ideal")
    assert diagonal.get_xydata().tolist() == [[0, 0], [1, 1]]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["accuracy", "mean confidence", "ideal"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("confidence", "accuracy, with 95 % intervals")
    assert ax.xaxis.get_major_formatter()(0.4) == "40 %"


def test_counts_too_long_for_their_bin_stand_upright() -> None:
    pred = random_classes(examples=3000)
    many = reliability_diagram(pred, noisy_targets(pred), bins=30)
    few = reliability_diagram(pred, noisy_targets(pred), bins=5)
    assert {text.get_rotation() for text in many.texts} == {90}
    assert {text.get_rotation() for text in few.texts} == {0}


def test_it_draws_where_it_is_told() -> None:
    _, ax = plt.subplots()
    pred = random_classes()
    assert reliability_diagram(pred, noisy_targets(pred), ax=ax) is ax


def test_bad_input_is_refused_by_name() -> None:
    pred = random_classes()
    with pytest.raises(ValueError, match=r"`bins` \(=0\) must be at least 1; 15 is usual"):
        reliability_diagram(pred, pred.label, bins=0)
    with pytest.raises(ValueError, match=r"`targets` .* must have the shape \(60,\)"):
        reliability_diagram(pred, pred.label[:5])
    with pytest.raises(TypeError, match=r"`pred` .* must be a ClassPredictive"):
        reliability_diagram(pred.mean, pred.label)
