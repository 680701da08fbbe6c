"""Can the uncertainty be trusted? Reliability, risk and coverage, right and wrong; and the bands of a regression."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from torch import Tensor

from tribayes._errors import wrong_type
from tribayes._text import level_text, percent
from tribayes.plots import style
from tribayes.plots.style import BLACK, BLUE, VERMILLION, check_index, check_line, check_points, check_type
from tribayes.prediction import ClassPredictive, RegressionPredictive, metrics
from tribayes.prediction.summary import origin

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
    targets = check_type("pred", pred, ClassPredictive).checked_targets(targets)
    data = metrics.reliability(pred.mean, targets, bins)
    error = metrics.calibration_error(pred.mean, targets, bins)
    ax = style.axes_or_new(ax, 4.6, 4.0)
    _draw_bins(ax, data)
    ax.plot([0, 1], [0, 1], color=BLACK, linestyle="--", linewidth=1, label="ideal")
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy, with 95 % intervals")
    style.percent_ticks(ax.xaxis, ax.yaxis)
    room = style.legend_above(ax, _write_counts(ax, data))
    title = f"Reliability of {len(pred):,} predictions (counts on top)"
    return style.headline(ax, title, f"Expected calibration error {percent(error, 2)}", room=room)


def _draw_bins(ax: Axes, data: metrics.Reliability) -> None:
    filled = data.count > 0
    columns = data.edges[:-1], data.edges[1:], data.accuracy, data.confidence, *_wilson(data.accuracy, data.count)
    left, right, accuracy, confidence, below, above = (values[filled].numpy() for values in columns)
    centre = (left + right) / 2
    bars = ax.bar(centre, accuracy, width=right - left, color=style.PALE_BLUE, edgecolor=BLUE, linewidth=0.8)
    ax.errorbar(centre, accuracy, (below, above), fmt="none", ecolor=BLUE, elinewidth=0.9)
    ax.hlines(confidence, left, right, color=VERMILLION, linewidth=2.2, label="mean confidence")
    bars[0].set_label("accuracy")


def _write_counts(ax: Axes, data: metrics.Reliability) -> float:
    """How many examples each bin holds, above the frame; upright where bins are narrow. Returns their height."""
    length = len(f"{int(data.count.max()):,}") * 0.62 * _COUNT_SIZE
    upright = length > _AXIS_POINTS / len(data.count) - 2
    look: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": _COUNT_SIZE, "rotation": 90 if upright else 0}
    for place, count in enumerate(data.count.tolist()):
        if count:
            centre = float(data.edges[place : place + 2].mean())
            ax.annotate(f"{count:,}", (centre, 1), xytext=(0, 3), textcoords="offset points", **look)
    return 3 + (length if upright else 1.2 * _COUNT_SIZE)


def _wilson(share: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """How far the 95 % interval of a probability reaches below and above a share of `count` trials, also of one."""
    weight = _Z**2 / count.double()
    centre = (share + weight / 2) / (1 + weight)
    half = (share * (1 - share) * weight + weight**2 / 4).sqrt() / (1 + weight)
    return (share - (centre - half)).clamp(min=0), (centre + half - share).clamp(min=0)


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
    draw = partial(_draw_risk, ax, targets, score, level)
    handles = [draw(name, one, style.ink(index)) for index, (name, one) in enumerate(named.items())]
    label, marker = f"mark: quite certain at {level_text(level)}", style.ink(0).marker
    handles.append(Line2D([], [], linestyle="", marker=marker, color=style.GREY, markersize=8, label=label))
    ax.set(xlim=(0, 1.02), xlabel="share of predictions kept", ylabel="error among those kept")
    ax.set_ylim(bottom=0)
    style.percent_ticks(ax.xaxis, ax.yaxis)
    ax.legend(handles=handles, loc="upper left", fontsize=style.SMALL)
    order = f"Ordered by {_ORDERED_BY.get(score, score)}"
    return style.headline(ax, "Errors left when the uncertain are set aside", order)


def _draw_risk(
    ax: Axes, targets: Tensor, score: str, level: float, name: str, pred: ClassPredictive, ink: style.Ink
) -> Line2D:
    """One curve with its mark; returns its entry in the legend, which shows both."""
    wrong = ~check_type("pred", pred, ClassPredictive).correct(targets)
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
    values = check_type("pred", pred, ClassPredictive).uncertainty(score)
    correct = pred.correct(targets)
    metrics.check_bins(bins, "20 is usual")
    outside = None if foreign is None else check_type("foreign", foreign, ClassPredictive).uncertainty(score)
    top = float(torch.cat([values, values if outside is None else outside]).max()) or 1.0
    edges = torch.linspace(0, top, bins + 1, dtype=torch.float64, device="cpu")
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
    shares = torch.full((len(values),), 1 / len(values), dtype=torch.float64, device="cpu")
    draw = partial(ax.hist, values.double().numpy(), edges.tolist(), weights=shares.numpy(), histtype="stepfilled")
    draw(facecolor=ink.colour, alpha=0.18)
    # hatching on translucent colour vanishes in SVG and PDF: the outline is drawn by itself
    draw(fill=False, edgecolor=ink.colour, linestyle=ink.line, linewidth=1.5, hatch=ink.hatch, label=label)


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
    check_type("pred", pred, RegressionPredictive, "pass tribayes.predict(..., likelihood=tribayes.Gaussian(...))")
    place, order = check_line("x", x, len(pred)).sort()
    output = check_index("output", output, pred.mean.shape[1], "outputs")
    ax = style.axes_or_new(ax, 4.6, 3.4)
    outer: dict[str, Any] = {"color": style.SKY, "alpha": 0.3, "label": f"new observation, {level_text(level)}"}
    inner: dict[str, Any] = {"color": BLUE, "alpha": 0.4, "label": f"function, {level_text(level)}"}
    for bounds, paint in ((pred.observation_interval(level), outer), (pred.interval(level), inner)):
        lower, upper = (bound[order, output].double().numpy() for bound in bounds)
        ax.fill_between(place.numpy(), lower, upper, linewidth=0, **paint)
    ax.plot(place.numpy(), pred.mean[order, output].double().numpy(), color=BLUE, linewidth=1.8, label="mean")
    if truth is not None:
        true = check_line("truth", truth, len(pred))[order]
        ax.plot(place.numpy(), true.numpy(), color=BLACK, linestyle="--", label="truth")
    if observed is not None:
        look: dict[str, Any] = {"s": 10, "color": VERMILLION, "marker": "o", "edgecolor": "white", "linewidth": 0.3}
        ax.scatter(*check_points("observed", observed), zorder=3, label="data", **look)
    ax.set(xlabel="x", ylabel="y")
    ax.margins(x=0)
    room = style.legend_above(ax)
    return style.headline(ax, f"Regression, {origin(pred.sample_count)}", room=room)
