"""Is the network less sure where it errs, and where the input is none of its kind? Histograms of an uncertainty."""

from __future__ import annotations

from functools import partial

import torch
from matplotlib.axes import Axes
from torch import Tensor

from tribayes.plots.checks import check_classes, check_count
from tribayes.plots.style import SMALL, Ink, axes_or_new, headline, ink, percent_ticks, tidy
from tribayes.prediction import ClassPredictive, metrics

_LABELS = {
    "entropy": "entropy: total uncertainty (nats)",
    "aleatoric": "aleatoric uncertainty (nats)",
    "epistemic": "epistemic uncertainty (nats)",
    "confidence": "one minus the confidence (probability)",
    "std": "standard deviation of the label's probability",
}


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
    foreign input) is more uncertain than a right one (one of the data).

    Args:
        pred: N predictions.
        targets: (N,) true classes.
        foreign: predictions for inputs of another kind, such as letters for a network that knows digits.
        score: as for `ClassPredictive.uncertainty`.
        bins: how many, from 0 to the largest value.
        ax: where to draw; default a new figure.

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
    ax = axes_or_new(ax, 4.6, 3.4)
    separation = metrics.auroc_or_none(values, ~correct)
    _draw_kind(ax, values[correct], edges, "right", None, ink(0))
    _draw_kind(ax, values[~correct], edges, "wrong", separation, ink(1))
    if outside is not None:
        _draw_kind(ax, outside, edges, "foreign", metrics.out_of_distribution_auroc(values, outside), ink(2))
    tidy(ax)
    ax.set(xlim=(0, top), xlabel=_LABELS.get(score, score), ylabel="share of each kind")
    percent_ticks(ax.yaxis)
    ax.set_ylim(top=1.3 * ax.get_ylim()[1])  # room for the legend
    ax.legend(loc="upper right", fontsize=SMALL)
    kinds = "right and wrong predictions" if outside is None else "right, wrong and foreign inputs"
    headline(ax, f"Uncertainty: {kinds}")
    return ax


def _draw_kind(ax: Axes, values: Tensor, edges: Tensor, name: str, separation: float | None, look: Ink) -> None:
    if len(values) == 0:
        ax.plot([], [], linestyle="", label=f"{name}: none")
        return
    label = f"{name} ({len(values):,})" + ("" if separation is None else f", AUROC {separation:.3f}")
    shares = torch.full((len(values),), 1 / len(values), dtype=torch.float64)
    draw = partial(ax.hist, values.double().numpy(), edges.tolist(), weights=shares.numpy(), histtype="stepfilled")
    draw(facecolor=look.colour, alpha=0.18)
    # hatching on translucent colour vanishes in SVG and PDF: the outline is drawn by itself
    draw(fill=False, edgecolor=look.colour, linestyle=look.line, linewidth=1.5, hatch=look.hatch, label=label)
