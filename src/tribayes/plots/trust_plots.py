"""Can the uncertainty be trusted? The reliability diagram, the risk-coverage curve, histograms of right and wrong."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import torch
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from torch import Tensor

from tribayes._errors import wrong_type
from tribayes._text import level_text, percent
from tribayes.plots import style
from tribayes.plots.checks import check_classes, check_count
from tribayes.prediction import ClassPredictive, metrics

Shares = NDArray[np.float64]

_Z = 1.96  # normal quantile of a 95 % interval
_COUNT_SIZE = 7.0  # points
_AXIS_POINTS = 260  # width of the axes in a figure of usual size
_ORDERED_BY = {"confidence": "1 − confidence", "std": "standard deviation of the label"}
_SCORES = {
    "entropy": "entropy: total uncertainty (nats)",
    "aleatoric": "aleatoric uncertainty (nats)",
    "epistemic": "epistemic uncertainty (nats)",
    "confidence": "one minus the confidence (probability)",
    "std": "standard deviation of the label's probability",
}


def reliability_diagram(
    pred: ClassPredictive, targets: Tensor, *, bins: int = metrics.BINS, ax: Axes | None = None
) -> Axes:
    """Share of right labels against confidence, in equal-width bins; perfect calibration lies on the diagonal.

    The mark over a bin is its mean confidence: the distance to the bar is the miscalibration. Thin lines are 95 %
    intervals of the share (Wilson's), which bins of few examples need; the numbers above count the examples. `targets`
    are (N,).

    Example:
        >>> pred = tb.predict(tb.to_bayesian(nn.Linear(4, 3)), torch.randn(60, 4), samples=50, progress=False)
        >>> ax = reliability_diagram(pred, pred.label, bins=10)
        >>> ax.get_title(loc="left").splitlines()[0]
        'Reliability of 60 predictions (counts on top)'
    """
    targets = check_classes("pred", pred).checked_targets(targets)
    data = metrics.reliability(pred.mean, targets, bins)
    error = metrics.calibration_error(pred.mean, targets, bins)
    ax = style.axes_or_new(ax, 4.6, 4.0)
    handles = _draw_bins(ax, data)
    handles += ax.plot([0, 1], [0, 1], color=style.BLACK, linestyle="--", linewidth=1, label="ideal")
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy, with 95 % intervals")
    style.percent_ticks(ax.xaxis, ax.yaxis)
    room = style.legend_above(ax, handles, room=_write_counts(ax, data))
    title = f"Reliability of {len(pred):,} predictions (counts on top)"
    return style.headline(ax, title, f"Expected calibration error {percent(error, 2)}", room=room)


def _draw_bins(ax: Axes, data: metrics.Reliability) -> list[Artist]:
    """Bars of the accuracy and marks of the confidence; returns their entries in the legend."""
    filled = data.count > 0
    left, right = data.edges[:-1][filled].numpy(), data.edges[1:][filled].numpy()
    accuracy, confidence = data.accuracy[filled].numpy(), data.confidence[filled].numpy()
    below, above = _wilson(accuracy, data.count[filled].numpy())
    centre, blue = (left + right) / 2, style.BLUE
    bars = ax.bar(centre, accuracy, width=right - left, color=style.PALE_BLUE, edgecolor=blue, linewidth=0.8)
    ax.errorbar(centre, accuracy, (accuracy - below, above - accuracy), fmt="none", ecolor=blue, elinewidth=0.9)
    marks = ax.hlines(confidence, left, right, color=style.VERMILLION, linewidth=2.2, label="mean confidence")
    bars[0].set_label("accuracy")
    return [bars[0], marks]


def _write_counts(ax: Axes, data: metrics.Reliability) -> float:
    """How many examples each bin holds, above the frame; upright where bins are narrow. Returns their height."""
    texts = {place: f"{int(number):,}" for place, number in enumerate(data.count) if number > 0}
    length = max(map(len, texts.values())) * 0.62 * _COUNT_SIZE
    upright = length > _AXIS_POINTS / len(data.count) - 2
    write = partial(ax.annotate, xytext=(0, 3), textcoords="offset points", ha="center", va="bottom")
    for place, text in texts.items():
        centre = float(data.edges[place : place + 2].mean())
        write(text, (centre, 1), fontsize=_COUNT_SIZE, rotation=90 if upright else 0)
    return 3 + (length if upright else 1.2 * _COUNT_SIZE)


def _wilson(share: Shares, count: NDArray[np.int64]) -> tuple[Shares, Shares]:
    """A 95 % interval for a probability, from a share of `count` trials; sensible also for one trial."""
    weight = _Z**2 / count
    centre = (share + weight / 2) / (1 + weight)
    half = np.sqrt(share * (1 - share) * weight + weight**2 / 4) / (1 + weight)
    return np.minimum(centre - half, share), np.maximum(centre + half, share)


def risk_coverage_curve(
    pred: ClassPredictive | Mapping[str, ClassPredictive],
    targets: Tensor,
    *,
    score: str = "entropy",
    level: float = 0.95,
    ax: Axes | None = None,
) -> Axes:
    """Error among the predictions that are kept, against the share kept, the least uncertain first.

    The marked point is the paper's rule, keep what is quite certain at `level`. The area under the curve, its mean
    error over all shares, stands in the legend: smaller is better. `pred` are N predictions, or several by name to
    compare, `targets` (N,) their true classes; `score` orders them, as in `ClassPredictive.uncertainty`.

    Example:
        >>> pred = tb.predict(tb.to_bayesian(nn.Linear(4, 3)), torch.randn(60, 4), samples=50, progress=False)
        >>> ax = risk_coverage_curve({"linear": pred}, torch.arange(60) % 3)
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('share of predictions kept', 'error among those kept')
    """
    named = {"": pred} if isinstance(pred, ClassPredictive) else pred
    if not isinstance(named, Mapping) or not named:
        remedy = "pass what tribayes.predict returned"
        raise wrong_type("pred", pred, "be a ClassPredictive or a dict of them, not empty", remedy)
    ax = style.axes_or_new(ax, 4.6, 3.4)
    handles = [
        _draw_risk(ax, check_classes("pred", one), targets, score, level, name, style.ink(index))
        for index, (name, one) in enumerate(named.items())
    ]
    mark = Line2D([], [], linestyle="", marker=handles[0].get_marker(), color=style.GREY, markersize=8)
    mark.set_label(f"mark: quite certain at {level_text(level)}")
    handles.append(mark)
    ax.set(xlim=(0, 1.02), xlabel="share of predictions kept", ylabel="error among those kept")
    ax.set_ylim(bottom=0)
    style.percent_ticks(ax.xaxis, ax.yaxis)
    ax.legend(handles=handles, loc="upper left", fontsize=style.SMALL)
    order = f"Ordered by {_ORDERED_BY.get(score, score)}"
    return style.headline(ax, "Errors left when the uncertain are set aside", order)


def _draw_risk(
    ax: Axes, pred: ClassPredictive, targets: Tensor, score: str, level: float, name: str, ink: style.Ink
) -> Line2D:
    """One curve with its mark; returns its entry in the legend, which shows both."""
    wrong = ~pred.correct(targets)
    curve = metrics.risk_coverage(pred.uncertainty(score), wrong)
    ax.plot(curve.coverage.numpy(), curve.risk.numpy(), color=ink.colour, linestyle=ink.line, drawstyle="steps-post")
    sure = pred.certain(level)
    if sure.any():
        kept, risk = float(sure.double().mean()), float(wrong[sure].double().mean())
        ax.plot(kept, risk, color=ink.colour, marker=ink.marker, linestyle="", markersize=8, zorder=3)
    label = f"{style.plain(name)}: area {curve.area:.2g}" if name else f"area {curve.area:.2g}"
    return Line2D([], [], color=ink.colour, linestyle=ink.line, marker=ink.marker, label=label)


def uncertainty_histogram(
    pred: ClassPredictive,
    targets: Tensor,
    *,
    foreign: ClassPredictive | None = None,
    score: str = "entropy",
    bins: int = 20,
    ax: Axes | None = None,
) -> Axes:
    """An uncertainty for right predictions, wrong ones, and foreign inputs, each as shares that add up to 100 %.

    The legend counts the examples of each kind and gives the AUROC: the probability that a wrong prediction (a
    foreign input) is more uncertain than a right one (one of the data). `targets` are (N,); `foreign` are predictions
    for inputs of another kind, such as letters for a network that knows digits; `score` is as in
    `ClassPredictive.uncertainty`; the `bins` go from 0 to the largest value.

    Example:
        >>> model, x, letters = tb.to_bayesian(nn.Linear(4, 3)), torch.randn(60, 4), 9 * torch.randn(60, 4)
        >>> pred, foreign = (tb.predict(model, inputs, samples=50, progress=False) for inputs in (x, letters))
        >>> ax = uncertainty_histogram(pred, pred.label, foreign=foreign, score="epistemic")
        >>> ax.get_xlabel()
        'epistemic uncertainty (nats)'
    """
    values = check_classes("pred", pred).uncertainty(score)
    correct = pred.correct(targets)
    check_count("bins", bins, "20 is usual")
    outside = None if foreign is None else check_classes("foreign", foreign).uncertainty(score)
    top = float(torch.cat([values, values if outside is None else outside]).max()) or 1.0
    edges = torch.linspace(0, top, bins + 1, dtype=torch.float64)
    ax = style.axes_or_new(ax, 4.6, 3.4)
    _draw_kind(ax, values[correct], edges, "right", None, style.ink(0))
    _draw_kind(ax, values[~correct], edges, "wrong", metrics.auroc_or_none(values, ~correct), style.ink(1))
    if outside is not None:
        _draw_kind(ax, outside, edges, "foreign", metrics.out_of_distribution_auroc(values, outside), style.ink(2))
    ax.set(xlim=(0, top), xlabel=_SCORES.get(score, score), ylabel="share of each kind")
    style.percent_ticks(ax.yaxis)
    ax.set_ylim(top=1.3 * ax.get_ylim()[1])  # room for the legend
    ax.legend(loc="upper right", fontsize=style.SMALL)
    kinds = "right and wrong predictions" if outside is None else "right, wrong and foreign inputs"
    return style.headline(ax, f"Uncertainty: {kinds}")


def _draw_kind(ax: Axes, values: Tensor, edges: Tensor, name: str, separation: float | None, ink: style.Ink) -> None:
    if len(values) == 0:
        ax.plot([], [], linestyle="", label=f"{name}: none")
        return
    label = f"{name} ({len(values):,})" + ("" if separation is None else f", AUROC {separation:.3f}")
    shares = torch.full((len(values),), 1 / len(values), dtype=torch.float64)
    draw = partial(ax.hist, values.double().numpy(), edges.tolist(), weights=shares.numpy(), histtype="stepfilled")
    draw(facecolor=ink.colour, alpha=0.18)
    # hatching on translucent colour vanishes in SVG and PDF: the outline is drawn by itself
    draw(fill=False, edgecolor=ink.colour, linestyle=ink.line, linewidth=1.5, hatch=ink.hatch, label=label)
