"""How many errors remain if the most uncertain predictions are handed to a person: the risk-coverage curve."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from torch import Tensor

from tribayes._errors import wrong_type
from tribayes._text import level_text
from tribayes.plots.checks import check_classes
from tribayes.plots.style import GREY, SMALL, Ink, axes_or_new, headline, ink, percent_ticks, plain, tidy
from tribayes.prediction import ClassPredictive, metrics

_ORDERED_BY = {"confidence": "1 − confidence", "std": "standard deviation of the label"}


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
    error over all shares, stands in the legend: smaller is better.

    Args:
        pred: N predictions, or several by name to compare.
        targets: (N,) true classes.
        score: the uncertainty to order by, as for `ClassPredictive.uncertainty`.
        level: of the marked rule.
        ax: where to draw; default a new figure.

    Example:
        >>> model, x, targets = tb.to_bayesian(nn.Linear(4, 3), rho=0.4), torch.randn(60, 4), torch.arange(60) % 3
        >>> models = {"correlated": model, "independent": tb.ablate_correlation(model)}
        >>> named = {name: tb.predict(one, x, samples=50, progress=False) for name, one in models.items()}
        >>> ax = risk_coverage_curve(named, targets)
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('share of predictions kept', 'error among those kept')
    """
    named = {"": pred} if isinstance(pred, ClassPredictive) else pred
    if not isinstance(named, Mapping) or not named:
        remedy = "pass what tribayes.predict returned"
        raise wrong_type("pred", pred, "be a ClassPredictive or a dict of them, not empty", remedy)
    ax = axes_or_new(ax, 4.6, 3.4)
    handles = [
        _draw_curve(ax, check_classes("pred", one), targets, score, level, name, ink(index))
        for index, (name, one) in enumerate(named.items())
    ]
    mark = f"mark: quite certain at {level_text(level)}"
    handles.append(Line2D([], [], linestyle="", marker=handles[0].get_marker(), color=GREY, markersize=8, label=mark))
    tidy(ax)
    ax.set(xlim=(0, 1.02), xlabel="share of predictions kept", ylabel="error among those kept")
    ax.set_ylim(bottom=0)
    percent_ticks(ax.xaxis)
    percent_ticks(ax.yaxis)
    ax.legend(handles=handles, loc="upper left", fontsize=SMALL)
    headline(ax, "Errors left when the uncertain are set aside", f"Ordered by {_ORDERED_BY.get(score, score)}")
    return ax


def _draw_curve(
    ax: Axes, pred: ClassPredictive, targets: Tensor, score: str, level: float, name: str, look: Ink
) -> Line2D:
    """One curve with its mark; returns its entry in the legend, which shows both."""
    wrong = ~pred.correct(targets)
    curve = metrics.risk_coverage(pred.uncertainty(score), wrong)
    ax.plot(curve.coverage.numpy(), curve.risk.numpy(), color=look.colour, linestyle=look.line, drawstyle="steps-post")
    sure = pred.certain(level)
    if sure.any():
        kept, risk = float(sure.double().mean()), float(wrong[sure].double().mean())
        ax.plot(kept, risk, color=look.colour, marker=look.marker, linestyle="", markersize=8, zorder=3)
    label = f"{plain(name)}: area {curve.area:.2g}" if name else f"area {curve.area:.2g}"
    return Line2D([], [], color=look.colour, linestyle=look.line, marker=look.marker, label=label)
