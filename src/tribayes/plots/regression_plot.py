"""A function of one variable with what is not known about it: mean, function interval, observation interval."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from torch import Tensor

from tribayes._errors import wrong_type
from tribayes._text import level_text
from tribayes.plots.checks import check_index, check_line, check_type
from tribayes.plots.style import BLACK, BLUE, SKY, VERMILLION, axes_or_new, headline, legend_above
from tribayes.prediction import RegressionPredictive
from tribayes.prediction.summary import origin


def regression_band(
    x: Tensor,
    pred: RegressionPredictive,
    *,
    observed: tuple[Tensor, Tensor] | None = None,
    truth: Tensor | None = None,
    output: int = 0,
    level: float = 0.95,
    ax: Axes | None = None,
) -> Axes:
    """The mean, the band that holds the function, and the wider one that holds a new observation.

    Args:
        x, pred: N predictions, and where they were made, (N,), in any order.
        observed: (x, y), (M,) each: data to draw as points.
        truth: (N,) the true function at `x`, where it is known.
        output: which of the D outputs.
        ax: label it with your quantities and units: ax.set(xlabel=…).

    Example:
        >>> x, model = torch.linspace(-4, 4, 200), tb.to_bayesian(nn.Linear(1, 1))
        >>> pred = tb.predict(model, x[:, None], samples=50, likelihood=tb.Gaussian(noise=0.1), progress=False)
        >>> ax = regression_band(x, pred, observed=(x[::20], x[::20].sin()))
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['new observation, 95 %', 'function, 95 %', 'mean', 'data']
    """
    remedy = "pass tribayes.predict(..., likelihood=tribayes.Gaussian(...))"
    check_type("pred", pred, RegressionPredictive, remedy)
    place = check_line("x", x, len(pred))
    output = check_index("output", output, pred.mean.shape[1], "outputs")
    order = place.argsort()

    def ordered(values: Tensor) -> NDArray[np.float64]:
        return values[order].double().numpy()

    ax = axes_or_new(ax, 4.6, 3.4)
    outer: dict[str, Any] = {"color": SKY, "alpha": 0.3, "label": f"new observation, {level_text(level)}"}
    inner: dict[str, Any] = {"color": BLUE, "alpha": 0.4, "label": f"function, {level_text(level)}"}
    for (lower, upper), paint in ((pred.observation_interval(level), outer), (pred.interval(level), inner)):
        ax.fill_between(ordered(place), ordered(lower[:, output]), ordered(upper[:, output]), linewidth=0, **paint)
    ax.plot(ordered(place), ordered(pred.mean[:, output]), color=BLUE, linewidth=1.8, label="mean")
    if truth is not None:
        line = check_line("truth", truth, len(pred))
        ax.plot(ordered(place), ordered(line), color=BLACK, linestyle="--", label="truth")
    if observed is not None:
        _draw_points(ax, observed)
    ax.set(xlabel="x", ylabel="y")
    ax.margins(x=0)
    room = legend_above(ax, ax.get_legend_handles_labels()[0])
    return headline(ax, f"Regression, {origin(pred.sample_count)}", room=room)


def _draw_points(ax: Axes, observed: tuple[Tensor, Tensor]) -> None:
    if not isinstance(observed, tuple) or len(observed) != 2:
        raise wrong_type("observed", observed, "be a pair (x, y)", "pass a tuple of two tensors")
    x = check_line("observed[0]", observed[0]).numpy()
    y = check_line("observed[1]", observed[1], len(x)).numpy()
    ax.scatter(x, y, s=10, color=VERMILLION, marker="o", edgecolor="white", linewidth=0.3, zorder=3, label="data")
