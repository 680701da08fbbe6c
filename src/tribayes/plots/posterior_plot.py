"""The learned posterior at a glance: how noisy each tensor is, and how its neighbours are correlated."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from tribayes._errors import refusal, wrong_type
from tribayes._text import minus, number
from tribayes.nn.table import PosteriorTable
from tribayes.plots.style import (
    BLACK,
    BLUE,
    PALE,
    PALE_BLUE,
    PALE_ORANGE,
    SMALL,
    VERMILLION,
    axes_or_new,
    headline,
    size_in_inches,
    tidy,
)

_ROW = 0.27  # inches per tensor, as long as there is room
_HIGHEST = 12.0  # inches


def posterior_bars(table: PosteriorTable, *, ax: Axes | None = None) -> Axes:
    """τ and ρ of every tensor as bars, from the network's input (top) to its output (bottom).

    τ is the standard deviation of the weights relative to their means; ρ, between −½ and ½, the correlation of
    neighbouring weights. Both have linear axes that contain 0, so lengths can be compared.

    Args:
        table: what `BayesianModule.posterior()` returns.
        ax: where to draw; default a new figure. It becomes an empty frame; `ax.child_axes` are the two panels.

    Example:
        >>> model = tb.to_bayesian(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)))
        >>> ax = posterior_bars(model.posterior())
        >>> [panel.get_xlabel() for panel in ax.child_axes]
        ['τ, relative deviation', 'ρ, correlation']
    """
    if not isinstance(table, PosteriorTable):
        raise wrong_type("table", type(table).__name__, "be a PosteriorTable", "pass model.posterior()")
    if len(table) == 0:
        raise refusal("table", table, "hold at least one tensor", "pass model.posterior()")
    ax = axes_or_new(ax, *bars_size(len(table)))
    ax.set_axis_off()
    headline(ax, "The learned posterior, tensor by tensor")
    left, right = ax.inset_axes((0, 0, 0.47, 1)), ax.inset_axes((0.53, 0, 0.47, 1))
    size = _type_size(ax, len(table))
    _draw_bars(left, [row.tau for row in table], BLUE, PALE_BLUE, "", size)
    _draw_bars(right, [row.rho for row in table], VERMILLION, PALE_ORANGE, "////", size)
    left.set_yticks(range(len(table)), [row.name for row in table], fontsize=size)
    left.set_xlabel("τ, relative deviation", fontsize=SMALL)
    left.set_xlim(0, 1.3 * max(row.tau for row in table) or 1)
    right.set_yticks(range(len(table)), [""] * len(table))
    right.set_xlabel("ρ, correlation", fontsize=SMALL)
    right.set_xlim(-0.8, 0.8)
    right.set_xticks([-0.5, 0, 0.5])
    right.axvline(0, color=BLACK, linewidth=0.8)
    return ax


def bars_size(count: int) -> tuple[float, float]:
    """Width and height in inches of a figure for so many tensors."""
    return 4.8, min(_HIGHEST, 1.1 + _ROW * count)


def _type_size(ax: Axes, count: int) -> float:
    """Points: small type, smaller where rows are closer than a line."""
    row = 72 * size_in_inches(ax)[1] / count
    return max(2.0, min(SMALL, 0.8 * row))


def _draw_bars(ax: Axes, values: Sequence[float], colour: str, pale: str, hatch: str, size: float) -> None:
    tidy(ax)
    ax.grid(visible=False, axis="y")
    bars = ax.barh(range(len(values)), values, height=0.66, color=pale, edgecolor=colour, hatch=hatch)
    ax.bar_label(bars, [minus(number(value, 3)) for value in values], padding=2, fontsize=size)
    ax.set_ylim(len(values) - 0.4, -0.6)  # the first tensor on top
    ax.tick_params(axis="x", labelsize=SMALL)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_color(PALE)
    ax.xaxis.set_major_locator(MaxNLocator(4))
