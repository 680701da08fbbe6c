"""The band is the mean and the two intervals, in the order of x."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import FillBetweenPolyCollection

from tests.plots.cases import NETWORKS, line, random_classes
from tribayes.plots import regression_band
from tribayes.prediction import RegressionPredictive
from tribayes.prediction.samples import Moments
from tribayes.prediction.source import Kept


def bands_of(ax: Axes) -> dict[str, np.ndarray]:
    """Label → the polygon's distinct corners."""
    bands = [c for c in ax.collections if isinstance(c, FillBetweenPolyCollection)]
    return {band.get_label(): band.get_paths()[0].vertices for band in bands}


def named_line(ax: Axes, name: str) -> np.ndarray:
    return next(drawn for drawn in ax.lines if drawn.get_label() == name).get_xydata()


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_bands_and_mean_are_the_predictions(level: float) -> None:
    x, pred = line()
    ax = regression_band(x, pred, level=level)
    order = x.argsort()
    assert named_line(ax, "mean") == pytest.approx(torch.stack([x, pred.mean[:, 0]], 1)[order].numpy())
    expected = {"function": pred.interval(level), "new observation": pred.observation_interval(level)}
    for name, (lower, upper) in expected.items():
        corners = bands_of(ax)[f"{name}, {100 * level:g} %"]
        for bound in (lower, upper):
            for place, value in zip(x, bound[:, 0], strict=True):
                assert np.isclose(corners, [float(place), float(value)], atol=1e-6).all(axis=1).any()


def test_the_headline_says_where_it_comes_from() -> None:
    x, pred = line()
    by_moments = RegressionPredictive(Kept(pred.samples), Moments(), pred.noise)
    titles = [regression_band(x, p).get_title(loc="left") for p in (pred, by_moments)]
    assert titles == [f"Regression, {NETWORKS} sampled networks", "Regression, one pass of moments"]


def test_data_and_truth_are_drawn_as_given() -> None:
    x, pred = line()
    observed = torch.tensor([0.1, 0.2, -0.3]), torch.tensor([1.0, 2.0, 3.0])
    ax = regression_band(x, pred, observed=observed, truth=x.square())
    points = next(c for c in ax.collections if c.get_label() == "data").get_offsets()
    assert np.asarray(points) == pytest.approx(torch.stack(observed, 1).numpy())
    ordered = x.sort().values
    assert named_line(ax, "truth") == pytest.approx(torch.stack([ordered, ordered.square()], 1).numpy())
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["new observation, 95 %", "function, 95 %", "mean", "truth", "data"]


def test_columns_are_taken_for_lines_and_the_given_axes_used() -> None:
    x, pred = line()
    _, ax = plt.subplots()
    assert regression_band(x[:, None], pred, truth=x[:, None], ax=ax) is ax
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x", "y")
    assert ax.get_title(loc="left") == "Regression, 40 sampled networks"


def test_bad_input_is_refused_by_name() -> None:
    x, pred = line()
    with pytest.raises(ValueError, match=r"`x` .* must have the shape \(25,\)"):
        regression_band(x[:7], pred)
    with pytest.raises(ValueError, match=r"`x` .* must be finite"):
        regression_band(x * torch.inf, pred)
    with pytest.raises(ValueError, match=r"`output` \(=1\) must lie in \[0, 1\); there are 1 outputs"):
        regression_band(x, pred, output=1)
    with pytest.raises(ValueError, match=r"`observed\[1\]` .* must have the shape \(3,\)"):
        regression_band(x, pred, observed=(torch.zeros(3), torch.zeros(2)))
    with pytest.raises(TypeError, match=r"`observed` .* must be a pair"):
        regression_band(x, pred, observed=torch.zeros(3))
    with pytest.raises(TypeError, match=r"`pred` \(='ClassPredictive'\) must be a RegressionPredictive"):
        regression_band(x, random_classes(25))
