"""Does a confidence of 90 % mean right in 90 %? The reliability diagram."""

from __future__ import annotations

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from numpy.typing import NDArray
from torch import Tensor

from tribayes._text import percent
from tribayes.plots.checks import check_classes, check_count
from tribayes.plots.style import (
    BLACK,
    BLUE,
    PALE_BLUE,
    VERMILLION,
    axes_or_new,
    headline,
    legend_above,
    percent_ticks,
    tidy,
)
from tribayes.prediction import ClassPredictive, metrics

Shares = NDArray[np.float64]

_Z = 1.96  # normal quantile of a 95 % interval
_COUNT_SIZE = 7.0  # points
_AXIS_POINTS = 260  # width of the axes in a figure of usual size


def reliability_diagram(
    pred: ClassPredictive, targets: Tensor, *, bins: int = metrics.BINS, ax: Axes | None = None
) -> Axes:
    """Share of right labels against confidence, in equal-width bins; perfect calibration lies on the diagonal.

    The mark over a bin is its mean confidence: the distance to the bar is the miscalibration. Thin lines are 95 %
    intervals of the share (Wilson's), which bins of few examples need; the numbers above count the examples.

    Args:
        pred: N predictions.
        targets: (N,) true classes.
        bins: how many.
        ax: where to draw; default a new figure.

    Example:
        >>> pred = tb.predict(tb.to_bayesian(nn.Linear(4, 3)), torch.randn(60, 4), samples=50, progress=False)
        >>> ax = reliability_diagram(pred, pred.label, bins=10)
        >>> ax.get_title(loc="left").splitlines()[0]
        'Reliability of 60 predictions (counts on top)'
    """
    targets = check_classes("pred", pred).checked_targets(targets)
    data = metrics.reliability(pred.mean, targets, check_count("bins", bins, "15 is usual"))
    error = metrics.calibration_error(pred.mean, targets, bins)
    ax = axes_or_new(ax, 4.6, 4.0)
    handles = _draw_bins(ax, data)
    handles += ax.plot([0, 1], [0, 1], color=BLACK, linestyle="--", linewidth=1, label="ideal")
    tidy(ax)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy, with 95 % intervals")
    percent_ticks(ax.xaxis)
    percent_ticks(ax.yaxis)
    room = legend_above(ax, handles, room=_write_counts(ax, data))
    title = f"Reliability of {len(pred):,} predictions (counts on top)"
    headline(ax, title, f"Expected calibration error {percent(error, 2)}", room=room)
    return ax


def _draw_bins(ax: Axes, data: metrics.Reliability) -> list[Artist]:
    """Bars of the accuracy and marks of the confidence; returns their entries in the legend."""
    filled = data.count > 0
    left, right = data.edges[:-1][filled].numpy(), data.edges[1:][filled].numpy()
    accuracy, confidence = data.accuracy[filled].numpy(), data.confidence[filled].numpy()
    below, above = _wilson(accuracy, data.count[filled].numpy())
    centre = (left + right) / 2
    bars = ax.bar(centre, accuracy, width=right - left, color=PALE_BLUE, edgecolor=BLUE, linewidth=0.8)
    ax.errorbar(centre, accuracy, (accuracy - below, above - accuracy), fmt="none", ecolor=BLUE, elinewidth=0.9)
    marks = ax.hlines(confidence, left, right, color=VERMILLION, linewidth=2.2, label="mean confidence")
    bars[0].set_label("accuracy")
    return [bars[0], marks]


def _write_counts(ax: Axes, data: metrics.Reliability) -> float:
    """How many examples each bin holds, above the frame; upright where bins are narrow. Returns their height."""
    texts = {place: f"{int(number):,}" for place, number in enumerate(data.count) if number > 0}
    length = max(map(len, texts.values())) * 0.62 * _COUNT_SIZE
    upright = length > _AXIS_POINTS / len(data.count) - 2
    for place, text in texts.items():
        ax.annotate(
            text,
            (float(data.edges[place : place + 2].mean()), 1),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=_COUNT_SIZE,
            rotation=90 if upright else 0,
        )
    return 3 + (length if upright else 1.2 * _COUNT_SIZE)


def _wilson(share: Shares, count: NDArray[np.int64]) -> tuple[Shares, Shares]:
    """A 95 % interval for a probability, from a share of `count` trials; sensible also for one trial."""
    weight = _Z**2 / count
    centre = (share + weight / 2) / (1 + weight)
    half = np.sqrt(share * (1 - share) * weight + weight**2 / 4) / (1 + weight)
    return np.minimum(centre - half, share), np.maximum(centre + half, share)
