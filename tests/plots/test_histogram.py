"""The histogram shows the uncertainty of each kind of input as shares of that kind."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.axes import Axes

from tests.plots.cases import noisy_targets, random_classes
from tribayes.plots import uncertainty_histogram
from tribayes.prediction import metrics


def shares_of(ax: Axes, name: str, bins: int) -> np.ndarray:
    """Heights of the outline whose legend entry begins with `name`."""
    outline = next(patch for patch in ax.patches if str(patch.get_label()).startswith(name))
    return outline.get_path().vertices[1 : 2 * bins : 2, 1]


@pytest.mark.parametrize("score", ["entropy", "epistemic", "std"])
def test_shares_are_those_of_each_kind(score: str) -> None:
    pred, foreign = random_classes(), random_classes(sharpness=0.5, seed=5)
    targets = noisy_targets(pred)
    ax = uncertainty_histogram(pred, targets, foreign=foreign, score=score, bins=8)
    values, outside = pred.uncertainty(score).double().numpy(), foreign.uncertainty(score).double().numpy()
    right = (pred.label == targets).numpy()
    edges = np.linspace(0, max(values.max(), outside.max()), 9)
    for name, kind in (("right", values[right]), ("wrong", values[~right]), ("foreign", outside)):
        expected = np.histogram(kind, edges)[0] / len(kind)
        assert shares_of(ax, name, 8) == pytest.approx(expected)
        assert shares_of(ax, name, 8).sum() == pytest.approx(1)


def test_the_legend_counts_and_tells_how_well_kinds_are_told_apart() -> None:
    pred, foreign = random_classes(), random_classes(sharpness=0.5, seed=5)
    targets = noisy_targets(pred)
    ax = uncertainty_histogram(pred, targets, foreign=foreign)
    wrong = pred.label != targets
    error = metrics.auroc(pred.entropy, wrong)
    strange = metrics.out_of_distribution_auroc(pred.entropy, foreign.entropy)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["right (51)", f"wrong (9), AUROC {error:.3f}", f"foreign (60), AUROC {strange:.3f}"]


def test_kinds_are_told_apart_without_colour() -> None:
    pred = random_classes()
    ax = uncertainty_histogram(pred, noisy_targets(pred), foreign=pred)
    outlines = [patch for patch in ax.patches if (patch.get_label() or "_")[0] != "_"]
    assert len({(patch.get_linestyle(), patch.get_hatch()) for patch in outlines}) == 3


def test_without_errors_the_legend_says_so() -> None:
    pred = random_classes()
    ax = uncertainty_histogram(pred, pred.label)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["right (60)", "wrong: none"]


def test_axes_are_labelled_with_units_and_the_given_one_is_used() -> None:
    _, ax = plt.subplots()
    pred = random_classes()
    assert uncertainty_histogram(pred, pred.label, score="aleatoric", ax=ax) is ax
    assert ax.get_xlabel() == "aleatoric uncertainty (nats)"
    assert ax.get_title(loc="left") == "Uncertainty: right and wrong predictions"


def test_predictions_without_any_uncertainty_can_be_drawn() -> None:
    pred = random_classes(sharpness=1e6)
    assert not pred.uncertainty("confidence").any()
    ax = uncertainty_histogram(pred, pred.label, score="confidence", bins=5)
    assert shares_of(ax, "right", 5) == pytest.approx([1, 0, 0, 0, 0])
    assert ax.get_xlim() == (0, 1)  # an axis without length could not be read


def test_bad_input_is_refused_by_name() -> None:
    pred = random_classes()
    with pytest.raises(ValueError, match=r"`score` .* must be one of"):
        uncertainty_histogram(pred, pred.label, score="doubt")
    with pytest.raises(ValueError, match=r"`bins` .* must be at least 1"):
        uncertainty_histogram(pred, pred.label, bins=-1)
    with pytest.raises(TypeError, match=r"`foreign` .* must be a ClassPredictive"):
        uncertainty_histogram(pred, pred.label, foreign=pred.entropy)
    with pytest.raises(TypeError, match=r"`targets` .* must be a tensor of class indices"):
        uncertainty_histogram(pred, torch.rand(60))
