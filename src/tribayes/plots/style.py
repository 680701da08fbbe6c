"""How all pictures look: colours, line styles, frames, headlines, images.

The colours are Okabe and Ito's, told apart by the colour-blind. No picture relies on them alone: series also differ
in line style, marker or hatching, so that a grey print can be read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from matplotlib.transforms import ScaledTranslation
from matplotlib.typing import LineStyleType
from torch import Tensor

from tribayes._errors import wrong_type

BLUE = "#0072B2"
VERMILLION = "#D55E00"
GREEN = "#009E73"
PURPLE = "#CC79A7"
SKY = "#56B4E9"
PALE_BLUE = "#8FC1E0"
PALE_ORANGE = "#F3B98F"  # opaque: hatching on translucent colours vanishes in SVG and PDF
BLACK = "#222222"
GREY = "#8C8C8C"
PALE = "#D9D9D9"

SMALL = 8.0  # points: legends, counts, captions
LEGEND_OUTSIDE: dict[str, Any] = {"frameon": False, "fontsize": SMALL, "borderaxespad": 0}


class Ink(NamedTuple):
    """What makes one series different from the next, in colour and without."""

    colour: str
    line: LineStyleType
    marker: str
    hatch: str


INKS = (
    Ink(BLUE, "-", "o", ""),
    Ink(VERMILLION, "--", "s", "////"),
    Ink(GREEN, "-.", "^", "\\\\\\\\"),
    Ink(PURPLE, ":", "D", "xxxx"),
    Ink(BLACK, (0, (5, 1, 1, 1, 1, 1)), "v", "++"),
)


def ink(index: int) -> Ink:
    """The ink of series number `index`; they repeat after five."""
    return INKS[index % len(INKS)]


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """The given axes, or those of a new figure of this size in inches, made tidy."""
    if ax is None:
        from matplotlib import pyplot  # only here: importing it chooses a window system

        _, ax = pyplot.subplots(figsize=(width, height), layout="constrained")
    if not isinstance(ax, Axes):
        raise wrong_type("ax", ax, "be a matplotlib Axes or None", "pass one, as from plt.subplots(), not an array")
    tidy(ax)
    return ax


def drawn(draw: Callable[..., Axes], width: float, height: float, *values: Any, **options: Any) -> Figure:
    """A figure, in inches, with what `draw(*values, **options)` draws; without pyplot, so no window and no list.

    >>> drawn(lambda values, ax: ax.plot(values), 4, 3, [1, 2, 3]).get_size_inches().tolist()
    [4.0, 3.0]
    """
    figure = Figure(figsize=(width, height), layout="constrained")
    draw(*values, ax=figure.subplots(), **options)
    return figure


def tidy(ax: Axes) -> None:
    """Only the two spines that carry numbers, and faint lines behind to read values from."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color=PALE, linewidth=0.6)
    ax.set_axisbelow(True)


def headline(ax: Axes, *lines: str, room: float = 0) -> Axes:
    """Write a title to the left, one line per argument, `room` points above the axes; returns the axes."""
    ax.set_title("\n".join(lines), loc="left", fontsize="medium", pad=6 + room)
    return ax


def legend_above(ax: Axes, handles: Sequence[Artist], room: float = 0) -> float:
    """A legend in columns of three between title and axes, where it hides no data; returns the points it takes.

    `room` points above the axes are left free for something else.
    """
    figure = ax.get_figure(root=True)
    assert figure is not None
    raised = ax.transAxes + ScaledTranslation(0, room / 72, figure.dpi_scale_trans)
    spacing: dict[str, Any] = {"borderpad": 0.2, "handlelength": 1.8, "columnspacing": 1.2, **LEGEND_OUTSIDE}
    ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), bbox_transform=raised, ncols=3, **spacing)
    return room + math.ceil(len(handles) / 3) * 1.65 * SMALL


def size_in_inches(ax: Axes) -> tuple[float, float]:
    """Width and height of the axes once the figure's layout has made room for titles."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    width, height = ax.get_position().size * figure.get_size_inches()
    return float(width), float(height)


def show_image(ax: Axes, image: Tensor) -> None:
    """Draw (1, H, W) in grey or (3, H, W) in colour, values in [0, 1], without ticks."""
    shown = image[0] if len(image) == 1 else image.movedim(0, -1)
    ax.imshow(shown.numpy(), cmap="gray", vmin=0, vmax=1, interpolation="nearest")  # colours are taken as they are
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set(color=GREY, linewidth=0.6)


def plain(text: str) -> str:
    """Text as it is: without this, matplotlib takes what stands between two dollar signs for a formula.

    >>> plain("$5")
    '\\\\$5'
    """
    return text.replace("$", r"\$")


def percent_ticks(*axes: Axis) -> None:
    """Label the ticks of shares in [0, 1] as percentages, with no more digits than they need."""
    for axis in axes:
        axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.6g} %"))
