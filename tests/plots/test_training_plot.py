"""Training curves are the history's numbers, smoothed as asked."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from tribayes.inference.history import History
from tribayes.plots import training_curves

HISTORY = History(loss=[3.0, 2.5, 2.2, 1.9, 2.0], nll=[2.0, 1.6, 1.4, 1.2, 1.4], kl=[100.0, 90.0, 80.0, 70.0, 60.0])


def line_named(ax: Axes, name: str) -> Line2D:
    return next(line for line in ax.lines if line.get_label() == name)


def test_lines_are_the_loss_and_its_parts() -> None:
    ax = training_curves(HISTORY)
    assert [line.get_label() for line in ax.lines] == ["loss", "negative log likelihood", "ν·KL"]
    assert [line.get_xdata().tolist() for line in ax.lines] == [[1, 2, 3, 4, 5]] * 3
    assert line_named(ax, "loss").get_ydata() == pytest.approx(HISTORY.loss)
    assert line_named(ax, "negative log likelihood").get_ydata() == pytest.approx(HISTORY.nll)
    assert line_named(ax, "ν·KL").get_ydata() == pytest.approx([1.0, 0.9, 0.8, 0.7, 0.6])
    assert len({line.get_linestyle() for line in ax.lines}) == 3
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("iteration", "nats per example")
    assert ax.get_title(loc="left") == "Training, 5 iterations"
    assert ax.get_ylim()[0] == 0


def test_smoothing_averages_the_neighbours_there_are() -> None:
    ax = training_curves(HISTORY, smooth=3)
    assert line_named(ax, "loss").get_ydata() == pytest.approx([2.75, 7.7 / 3, 6.6 / 3, 6.1 / 3, 1.95])
    assert ax.lines[0].get_ydata() == pytest.approx(HISTORY.loss)  # the raw values, behind
    assert ax.get_title(loc="left").endswith("Means over 3 iterations")


@pytest.mark.parametrize("window", [2, 4, 9, 1000])
def test_smoothing_keeps_the_length_and_a_constant(window: int) -> None:
    flat = History([2.0] * 7, [1.0] * 7, [1.0] * 7)
    assert line_named(training_curves(flat, smooth=window), "loss").get_ydata() == pytest.approx([2.0] * 7)


def test_long_histories_are_smoothed_by_default() -> None:
    values = np.linspace(3, 1, 500).tolist()
    ax = training_curves(History(values, values, values))
    assert "Means over 10 iterations" in ax.get_title(loc="left")


def test_test_errors_have_an_axis_of_their_own() -> None:
    ax = training_curves(HISTORY, test_error=([2, 4], [0.5, 0.25]), final_error=0.2)
    (right,) = (other for other in ax.figure.axes if other is not ax)
    series, final = right.lines
    assert series.get_xydata().tolist() == [[2, 0.5], [4, 0.25]]
    assert list(final.get_ydata()) == [0.2, 0.2]
    assert right.get_ylabel() == "test error"
    assert right.get_ylim() == pytest.approx((0, 0.55))
    assert right.yaxis.get_major_formatter()(0.25) == "25 %"
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts[3:] == ["test error (right)", "final test error 20.00 % (right)"]


def test_a_density_may_have_a_negative_loss() -> None:
    ax = training_curves(History([-1.0, -2.0], [-1.5, -2.4], [1.0, 1.0]))
    assert ax.get_ylim()[0] < -2


def test_it_draws_where_it_is_told() -> None:
    _, ax = plt.subplots()
    assert training_curves(HISTORY, ax=ax) is ax


def test_bad_input_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"`history` \(='dict'\) must be a History"):
        training_curves(HISTORY.as_dict())
    with pytest.raises(ValueError, match=r"`history` .* must hold at least one iteration"):
        training_curves(History())
    with pytest.raises(ValueError, match=r"`smooth` \(=0\) must be at least 1"):
        training_curves(HISTORY, smooth=0)
    with pytest.raises(ValueError, match=r"`test_error\[1\]` .* must have the shape \(2,\)"):
        training_curves(HISTORY, test_error=([1, 2], [0.1]))
