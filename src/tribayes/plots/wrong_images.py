"""The errors no interval warned of: a grid of images that were wrong and quite certain (the paper's Fig. 6)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from torch import Tensor

from tribayes._text import level_text
from tribayes.plots.checks import check_classes, check_count, check_images, names_of
from tribayes.plots.style import SMALL, axes_or_new, headline, show_image, size_in_inches
from tribayes.prediction import ClassPredictive
from tribayes.prediction.selection import confidently_wrong

_CAPTION = 0.045  # inches under an image per point of type: two lines
_WIDTH = 4.6  # inches
_CELL = 1.1  # inches per image, with its share of the gaps
_TINY = 0.4  # inches
_FILL = 0.92  # share of a cell's width that an image takes


def wrong_and_certain(
    pred: ClassPredictive,
    targets: Tensor,
    images: Tensor,
    *,
    level: float = 0.95,
    class_names: Sequence[str] | None = None,
    most: int = 24,
    ax: Axes | None = None,
) -> Axes:
    """The images of wrong predictions that were quite certain, the most confident first, each with its classes.

    Args:
        pred: N predictions.
        targets: (N,) true classes.
        images: (N, 1, H, W) grey or (N, 3, H, W) colour, in [0, 1].
        level: at which a prediction counts as quite certain.
        class_names: C names; default the classes' numbers.
        most: how many to show.
        ax: where to draw; default a new figure. It becomes an empty frame, and `ax.child_axes` holds the images.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
        >>> model, images = tb.to_bayesian(net, tau=1e-6), torch.rand(9, 1, 8, 8)
        >>> pred = tb.predict(model, images, samples=50, progress=False)
        >>> ax = wrong_and_certain(pred, (pred.label + 1) % 3, images, most=4)
        >>> len(ax.child_axes)
        4
    """
    targets = check_classes("pred", pred).checked_targets(targets)
    images = check_images(images, len(pred))
    names = names_of(class_names, pred.mean.shape[1])
    check_count("most", most, "it counts images")
    found = confidently_wrong(pred, targets, level)
    captions = captions_of(pred, targets, found[:most], names)
    ax = axes_or_new(ax, *grid_size(captions))
    ax.set_axis_off()
    _say_how_many(ax, len(found), int((~pred.correct(targets)).sum()), len(captions), level)
    if captions:
        _draw_grid(ax, images[found[:most]], captions)
    return ax


def captions_of(pred: ClassPredictive, targets: Tensor, examples: Sequence[int], names: Sequence[str]) -> list[str]:
    """What stands under the images of these examples."""
    return [f"true {names[int(targets[i])]}\npredicted {names[int(pred.label[i])]}" for i in examples]


def grid_size(captions: Sequence[str]) -> tuple[float, float]:
    """Width and height in inches of a figure for images with these captions."""
    if not captions:
        return _WIDTH, 1.2
    columns = max(1, min(len(captions), int(_WIDTH / max(_CELL, _caption_width(captions, SMALL)))))
    side = min(_CELL, _FILL * _WIDTH / columns)
    return _WIDTH, 0.6 + math.ceil(len(captions) / columns) * (side + _CAPTION * SMALL)


def _say_how_many(ax: Axes, found: int, errors: int, shown: int, level: float) -> None:
    certain = f"quite certain at {level_text(level)}"
    if found == 0:
        headline(ax, f"Wrong, yet {certain}: none")
        reason = f"none of the {errors} wrong predictions was {certain}" if errors else "no prediction was wrong"
        ax.text(0.5, 0.5, reason, ha="center", va="center", wrap=True, transform=ax.transAxes)
        return
    part = f" (the {shown} most confident)" if shown < found else ""
    headline(ax, f"Wrong, yet {certain}:", f"{found} of {errors} wrong predictions{part}")


class _Grid(NamedTuple):
    """A way to arrange images in so many columns, each `side` inches wide and high, with captions of `size` points."""

    side: float
    columns: int
    size: float


def _best_grid(captions: Sequence[str], width: float, height: float) -> _Grid:
    """The one with the largest images; captions are made smaller only where images would be tiny."""
    for size in (SMALL, 0.75 * SMALL, 0.55 * SMALL):
        fitting = max(1, min(len(captions), int(width / _caption_width(captions, size))))
        best = max(_grid(len(captions), columns, width, height, size) for columns in range(1, fitting + 1))
        if best.side >= _TINY:
            break
    return best


def _grid(count: int, columns: int, width: float, height: float, size: float) -> _Grid:
    free = height / math.ceil(count / columns) - _CAPTION * size
    return _Grid(max(0.05, min(_FILL * width / columns, free)), columns, size)


def _caption_width(captions: Sequence[str], size: float) -> float:
    """Inches; the average character is about half as wide as the type is high."""
    return (1 + max(len(line) for caption in captions for line in caption.split("\n"))) * 0.53 * size / 72


def _draw_grid(ax: Axes, images: Tensor, captions: Sequence[str]) -> None:
    """The images in reading order, each in axes of its own."""
    width, height = size_in_inches(ax)
    side, columns, size = _best_grid(captions, width, height)
    rows = math.ceil(len(captions) / columns)
    for place, (image, caption) in enumerate(zip(images, captions, strict=True)):
        row, column = divmod(place, columns)
        x, y = (column + 0.5) * width / columns - side / 2, height - row * height / rows - side
        cell = ax.inset_axes((x / width, y / height, side / width, side / height))
        show_image(cell, image)
        cell.set_xlabel(caption, fontsize=size, labelpad=2)
