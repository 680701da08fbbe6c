"""What training did: the loss along the way (the paper's Figs. 1-2), and the posterior of every tensor at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from tribayes._errors import check_whole, is_number, refusal
from tribayes._text import minus, number, percent
from tribayes.inference.history import History
from tribayes.nn.table import PosteriorTable
from tribayes.plots import style
from tribayes.plots.style import BLACK, SMALL, check_points, check_type

Series = tuple[Sequence[int] | Tensor, Sequence[float] | Tensor]

_ROW = 0.27  # inches per tensor, as long as there is room
_HIGHEST = 12.0  # inches


def training_curves(
    history: History,
    *,
    smooth: int | None = None,
    test_error: Series | None = None,
    final_error: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Loss, negative log likelihood and ν·KL (their difference) along the iterations, in nats per example.

    Args:
        smooth: average over so many iterations, centred, with the raw values faintly behind; 1 for the raw values
            alone. Default: a fiftieth of the iterations.
        test_error: (iterations, errors), errors as shares in [0, 1], drawn on an axis of its own to the right.
        final_error: a share, drawn as a horizontal line on that axis.

    Example:
        >>> history = tb.History(loss=[2.0, 1.5, 1.2], nll=[1.0, 0.7, 0.5], kl=[100.0, 80.0, 70.0])
        >>> ax = training_curves(history, final_error=0.02)
        >>> [line.get_label() for line in ax.lines]
        ['loss', 'negative log likelihood', 'ν·KL']
    """
    if len(check_type("history", history, History, "pass what tribayes.fit returned")) == 0:
        raise refusal("history", history, "hold at least one iteration", "train first")
    window = (
        max(1, len(history) // 50) if smooth is None else check_whole("smooth", smooth, "it counts iterations", least=1)
    )
    window = min(window, 2 * len(history))  # a longer one holds no more
    loss, nll = (torch.tensor(values, dtype=torch.float64, device="cpu") for values in (history.loss, history.nll))
    ax = style.axes_or_new(ax, 4.6, 3.4)
    curves = {"loss": loss, "negative log likelihood": nll, "ν·KL": loss - nll}
    drawn = [_draw_curve(ax, *curve, window, ink) for curve, ink in zip(curves.items(), style.INKS, strict=False)]
    if min(float(nll.min()), float((loss - nll).min())) > -1e-6:  # a density's may be negative; rounding is not
        ax.set_ylim(bottom=0)
    ax.set(xlim=(0, len(loss) + 1), xlabel="iteration", ylabel="nats per example")
    if test_error is not None or final_error is not None:
        drawn += _draw_errors(ax, test_error, final_error)
    ax.legend(handles=drawn, loc="upper right", fontsize=SMALL)
    means = [f"Means over {window} iterations"] if window > 1 else []
    return style.headline(ax, f"Training, {len(loss):,} iterations", *means)


def _draw_curve(ax: Axes, name: str, values: Tensor, window: int, ink: style.Ink) -> Line2D:
    """A curve of the means over the `window` nearest entries, fewer at the ends."""
    steps = range(1, len(values) + 1)
    if window > 1:
        ax.plot(steps, values.numpy(), color=ink.colour, linewidth=0.5, alpha=0.3)
    means = F.avg_pool1d(values.unsqueeze(0), window, stride=1, padding=window // 2, count_include_pad=False)
    shown = means[0, -len(values) :].numpy()  # an even window gives one mean too many
    (line,) = ax.plot(steps, shown, color=ink.colour, linestyle=ink.line, linewidth=1.5, label=name)
    return line


def _draw_errors(ax: Axes, test_error: Series | None, final_error: float | None) -> list[Line2D]:
    """The test error on an axis to the right."""
    right, largest = ax.twinx(), 0.0
    if test_error is not None:
        points = check_points("test_error", test_error)
        largest = float(points[1].max())
        right.plot(*points, color=style.PURPLE, marker="D", markersize=3, label="test error (right)")
    if final_error is not None:
        if not is_number(final_error) or not 0 <= final_error <= 1:
            raise refusal("final_error", final_error, "be a share in [0, 1]", "pass wrong answers over examples")
        largest = max(largest, 2 * final_error)  # alone, it should not hide behind the legend
        label = f"final test error {percent(final_error, 2)} (right)"
        right.axhline(final_error, color=BLACK, linestyle=":", linewidth=1.5, label=label)
    right.set(ylabel="test error", ylim=(0, 1.1 * largest or 1))
    style.percent_ticks(right.yaxis)
    right.spines["top"].set_visible(False)
    ax.set_zorder(right.get_zorder() + 1)  # the legend above all lines
    ax.patch.set_visible(False)
    return list(right.lines)


def posterior_bars(table: PosteriorTable, *, ax: Axes | None = None) -> Axes:
    """τ and ρ of every tensor as bars, from the network's input (top) to its output (bottom).

    τ is the standard deviation of the weights relative to their means; ρ, between −½ and ½, the correlation of
    neighbouring weights. Both have linear axes that contain 0, so lengths can be compared. `table` is what
    `BayesianModule.posterior()` returns; `ax` becomes an empty frame, and `ax.child_axes` are the two panels.

    Example:
        >>> model = tb.to_bayesian(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)))
        >>> ax = posterior_bars(model.posterior())
        >>> [panel.get_xlabel() for panel in ax.child_axes]
        ['τ, relative deviation', 'ρ, correlation']
    """
    if len(check_type("table", table, PosteriorTable, "pass model.posterior()")) == 0:
        raise refusal("table", table, "hold at least one tensor", "pass model.posterior()")
    ax = style.axes_or_new(ax, *bars_size(len(table)))
    ax.set_axis_off()
    style.headline(ax, "The learned posterior, tensor by tensor")
    row = 72 * style.size_in_inches(ax)[1] / len(table)  # points
    size = max(2.0, min(SMALL, 0.8 * row))  # small type, smaller where rows are closer than a line
    left, right = ax.inset_axes((0, 0, 0.47, 1)), ax.inset_axes((0.53, 0, 0.47, 1))
    tau, rho = [row.tau for row in table], [row.rho for row in table]
    _draw_bars(left, tau, "τ, relative deviation", size, color=style.PALE_BLUE, edgecolor=style.BLUE)
    _draw_bars(right, rho, "ρ, correlation", size, color=style.PALE_ORANGE, edgecolor=style.VERMILLION, hatch="////")
    left.set_yticks(range(len(table)), [row.name for row in table], fontsize=size)
    left.set_xlim(0, 1.3 * max(tau) or 1)
    right.set(xlim=(-0.8, 0.8), xticks=[-0.5, 0, 0.5], yticks=range(len(table)), yticklabels=[])
    right.axvline(0, color=BLACK, linewidth=0.8)
    return ax


def bars_size(count: int) -> tuple[float, float]:
    """Width and height in inches of a figure for so many tensors."""
    return 4.8, min(_HIGHEST, 1.1 + _ROW * count)


def _draw_bars(ax: Axes, values: Sequence[float], label: str, size: float, **look: Any) -> None:
    style.tidy(ax)
    ax.grid(visible=False, axis="y")
    bars = ax.barh(range(len(values)), values, height=0.66, **look)
    ax.bar_label(bars, [minus(number(value, 3)) for value in values], padding=2, fontsize=size)
    ax.set_xlabel(label, fontsize=SMALL)
    ax.set_ylim(len(values) - 0.4, -0.6)  # the first tensor on top
    ax.tick_params(axis="x", labelsize=SMALL)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_color(style.PALE)
    ax.xaxis.set_major_locator(MaxNLocator(4))
