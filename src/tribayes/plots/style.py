"""What all pictures share: colours, line styles, frames, headlines, images, and what they ask of their arguments.

The colours are Okabe and Ito's, told apart by the colour-blind. No picture relies on them alone: series also differ
in line style, marker or hatching, so that a grey print can be read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation
from matplotlib.typing import LineStyleType
from numpy.typing import NDArray
from torch import Tensor

from tribayes._errors import check_plain, check_whole, refusal, wrong_type
from tribayes._text import printable
from tribayes.prediction.predictive import ClassPredictive, check_one_label_each

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

T = TypeVar("T")


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
    """A figure, in inches, with what `draw(*values, **options)` draws; without pyplot, so no window and no list."""
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


def legend_above(ax: Axes, room: float = 0) -> float:
    """A legend in columns of three between title and axes, where it hides no data; returns the points it takes.

    `room` points above the axes are left free for something else.
    """
    handles, _ = ax.get_legend_handles_labels()
    raised = ax.transAxes + ScaledTranslation(0, room / 72, _figure(ax).dpi_scale_trans)
    spacing: dict[str, Any] = {"borderpad": 0.2, "handlelength": 1.8, "columnspacing": 1.2, **LEGEND_OUTSIDE}
    ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), bbox_transform=raised, ncols=3, **spacing)
    return room + math.ceil(len(handles) / 3) * 1.65 * SMALL


def size_in_inches(ax: Axes) -> tuple[float, float]:
    """Width and height of the axes once the figure's layout has made room for titles."""
    _figure(ax).draw_without_rendering()
    width, height = ax.get_position().size * _figure(ax).get_size_inches()
    return float(width), float(height)


def _figure(ax: Axes) -> Figure:
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def show_image(ax: Axes, image: Tensor) -> None:
    """Draw (1, H, W) in grey or (3, H, W) in colour, values in [0, 1], without ticks."""
    shown = image[0] if len(image) == 1 else image.movedim(0, -1)
    ax.imshow(shown.numpy(), cmap="gray", vmin=0, vmax=1, interpolation="nearest")  # colours are taken as they are
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set(color=GREY, linewidth=0.6)


def plain(text: str) -> str:
    """Text as it is: matplotlib would take what stands between two dollar signs for a formula.

    Control characters, which no font has and which break an SVG, are written out.
    """
    return printable(text, keep="\n").replace("$", r"\$")


def percent_ticks(*axes: Axis) -> None:
    """Label the ticks of shares in [0, 1] as percentages, with no more digits than they need."""
    for axis in axes:
        axis.set_major_formatter(lambda share, _: f"{100 * share:.6g} %")


def check_type(argument: str, value: object, kind: type[T], remedy: str = "pass what tribayes.predict returned") -> T:
    if not isinstance(value, kind):
        raise wrong_type(argument, type(value).__name__, f"be a {kind.__name__}", remedy)
    if isinstance(value, ClassPredictive):
        check_one_label_each(value, "a picture")
    return value


def check_index(argument: str, index: object, count: int, things: str) -> int:
    if isinstance(index, Tensor) and index.ndim == 0 and not index.is_floating_point():
        index = int(index)
    number = check_whole(argument, index, f"it numbers the {things} from 0")
    if not 0 <= number < count:
        raise refusal(argument, number, f"lie in [0, {count})", f"there are {count} {things}")
    return number


def names_of(class_names: Sequence[str] | None, classes: int) -> list[str]:
    """A name for each class: its number where none is given."""
    if class_names is None:
        return [str(index) for index in range(classes)]
    if isinstance(class_names, str) or not isinstance(class_names, Sequence) or len(class_names) != classes:
        raise refusal("class_names", class_names, f"hold {classes} names, one per class", "check their number")
    return [str(name) for name in class_names]


def check_images(images: object, count: int | None = None) -> Tensor:
    """So many images, (N, 1 or 3, H, W), on the CPU as float32; without a count one, (1 or 3, H, W) or (H, W)."""
    argument, shape, remedy = "images", "(N, 1, H, W) or (N, 3, H, W)", "add or move the channel axis"
    if count is None:
        argument, shape, remedy = "image", "(H, W), (1, H, W) or (3, H, W)", "pass one image, images[i]"
    if not isinstance(images, Tensor):
        raise wrong_type(argument, type(images).__name__, "be a tensor", "convert it with torch.as_tensor")
    check_plain(argument, images)
    values = images.detach().cpu().float()
    values = values.unsqueeze(0) if count is None and values.ndim == 2 else values
    if values.ndim != (3 if count is None else 4) or values.shape[-3] not in (1, 3):
        raise refusal(argument, images, f"have the shape {shape}", remedy)
    if not ((values >= 0) & (values <= 1)).all():  # NaN is refused too
        found = f"values from {float(values.min()):.3g} to {float(values.max()):.3g}"
        raise refusal(argument, found, "lie in [0, 1]", "divide bytes by 255, or undo the normalisation")
    if count is not None and len(values) != count:
        raise refusal(argument, images, f"hold {count} images, one per example", "pass those that were predicted")
    return values


def check_line(argument: str, values: object, count: int | None = None) -> Tensor:
    """Finite numbers along one axis, (N,), on the CPU as float64; (N, 1) is accepted."""
    try:
        line = torch.as_tensor(values).detach().cpu().double()
    except (TypeError, ValueError, RuntimeError) as error:
        raise wrong_type(argument, values, "be a tensor or a list of numbers", "convert it") from error
    line = line.squeeze(-1) if line.ndim == 2 and line.shape[-1] == 1 else line
    if line.ndim != 1 or (count is not None and len(line) != count):
        raise refusal(argument, values, f"have the shape ({'N' if count is None else count},)", "check the data")
    if not torch.isfinite(line).all():
        raise refusal(argument, values, "be finite", "clean the data")
    return line


def check_points(argument: str, points: object) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A pair (x, y) of two such lines, equally long."""
    if not isinstance(points, tuple | list) or len(points) != 2:
        raise wrong_type(argument, points, "be a pair (x, y)", "pass a tuple of two tensors")
    x = check_line(f"{argument}[0]", points[0])
    return x.numpy(), check_line(f"{argument}[1]", points[1], len(x)).numpy()
