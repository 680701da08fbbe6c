"""Single examples: one box per class (the paper's Figs. 3-5); a grid of the wrong and quite certain (Fig. 6)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from torch import Tensor

from tribayes._errors import check_whole
from tribayes._text import level_text
from tribayes.plots import style
from tribayes.plots.style import BLACK, BLUE, SMALL, check_images, check_index, check_type, names_of, plain
from tribayes.prediction import ClassPredictive
from tribayes.prediction.classification import confidently_wrong
from tribayes.prediction.source import quantiles

_NAMES_LENGTH = 18  # characters of class names in the title; more would not fit

# of the grid, in inches
_WIDTH = 4.6
_CELL = 1.1  # per image, with its share of the gaps
_TINY = 0.4  # an image
_CAPTION = 0.045  # under an image, per point of type: two lines
_FILL = 0.92  # share of a cell's width that an image takes


def output_boxplot(
    pred: ClassPredictive,
    example: int,
    *,
    image: Tensor | None = None,
    target: int | None = None,
    class_names: Sequence[str] | None = None,
    level: float = 0.95,
    most: int = 20,
    ax: Axes | None = None,
) -> Axes:
    """Boxplots of the S sampled probabilities of each class, for one example.

    A box spans the middle half of the networks, its line is the median, and the whiskers are the credible interval
    of `level`; dots are the networks outside it. The shaded band continues the predicted class's interval: the
    prediction is quite certain where no other whisker reaches into the band.

    Args:
        pred, example: a prediction that kept its samples, and which of its N examples, in [0, N).
        image, target: its image, (H, W), (1, H, W) or (3, H, W) in [0, 1], drawn to the right, and its true class.
        most: with more classes than this, only the most probable are drawn (and the true one).
        ax: the image and the legend stand to its right.

    Example:
        >>> model, images = tb.to_bayesian(nn.Sequential(nn.Flatten(), nn.Linear(64, 3))), torch.rand(9, 1, 8, 8)
        >>> pred = tb.predict(model, images, samples=50, progress=False)
        >>> ax = output_boxplot(pred, 7, image=images[7], target=2)
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('class', 'probability')
    """
    view = _View(pred, example, target, level, most)
    names = [plain(name) for name in names_of(class_names, view.classes)]
    ax = style.axes_or_new(ax, 5.0, 3.3)
    _draw_boxes(ax, view)
    _name_classes(ax, view, names)
    ax.set(ylim=(-0.03, 1.03), ylabel="probability")
    _draw_beside(ax, view, None if image is None else check_images(image))
    return style.headline(ax, *_titles(view, names))


class _View:
    """One example, its classes restricted to those that are drawn."""

    def __init__(self, pred: ClassPredictive, example: int, target: int | None, level: float, most: int) -> None:
        check_type("pred", pred, ClassPredictive)
        check_whole("most", most, "it counts classes", least=1)
        example = check_index("example", example, len(pred), "examples")
        self.level, self.classes, self.label = level, pred.mean.shape[1], int(pred.label[example])
        self.target = None if target is None else check_index("target", target, self.classes, "classes")
        lower, upper = (bound[example] for bound in pred.interval(level))
        overlaps = (upper >= lower[self.label]) & (lower <= upper[self.label])
        overlaps[self.label] = False
        self.rivals: list[int] = overlaps.nonzero().flatten().tolist()
        likely = pred.mean[example].topk(min(most, self.classes)).indices.tolist()
        self.shown: list[int] = sorted({*likely, self.label, self.label if self.target is None else self.target})
        self.outputs = pred.samples[:, example, self.shown]  # (S, shown)
        self.lower, self.upper = lower[self.shown], upper[self.shown]


def _draw_boxes(ax: Axes, view: _View) -> None:
    own = view.shown.index(view.label)
    ax.axhspan(float(view.lower[own]), float(view.upper[own]), color=BLUE, alpha=0.13, linewidth=0, zorder=0)
    ax.grid(visible=False, axis="x")
    quartiles = quantiles(view.outputs.unsqueeze(1), (0.25, 0.5, 0.75)).squeeze(1)  # (3, shown)
    outside = (view.outputs < view.lower) | (view.outputs > view.upper)
    dots = [column[out].tolist() for column, out in zip(view.outputs.T, outside.T, strict=True)]
    columns = (*quartiles.tolist(), view.lower.tolist(), view.upper.tolist(), dots)
    names = ("q1", "med", "q3", "whislo", "whishi", "fliers")
    boxes = [dict(zip(names, box, strict=True)) for box in zip(*columns, strict=True)]
    median = {"color": BLACK, "linewidth": 1.6}
    dot = {"marker": ".", "markersize": 3, "markeredgecolor": "none", "markerfacecolor": BLACK, "alpha": 0.45}
    look: dict[str, Any] = {"widths": 0.62, "patch_artist": True, "medianprops": median, "flierprops": dot}
    drawn = ax.bxp(boxes, range(len(boxes)), manage_ticks=False, **look)  # boxplot() would round the whiskers' ends
    for index, box in zip(view.shown, drawn["boxes"], strict=True):
        box.set(**_paint(index, view))


def _paint(index: int, view: _View) -> dict[str, Any]:
    if index == view.label:
        return {"facecolor": BLUE, "edgecolor": BLACK}
    if index in view.rivals:
        return {"facecolor": style.PALE_ORANGE, "edgecolor": BLACK, "hatch": "////"}
    return {"facecolor": style.PALE, "edgecolor": BLACK}


def _name_classes(ax: Axes, view: _View, names: list[str]) -> None:
    """Class names below the boxes, turned where they are long or many; the predicted one is bold."""
    shown = [names[index] for index in view.shown]
    many, long = len(shown) > 12, max(map(len, shown)) > 3
    turn: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if long else {}
    ax.set_xticks(range(len(shown)), shown, **({"rotation": 90, "fontsize": SMALL} if many else turn))
    ax.get_xticklabels()[view.shown.index(view.label)].set_fontweight("bold")
    part = "" if len(shown) == view.classes else f" ({len(shown)} of {view.classes})"
    ax.set(xlabel=f"class{part}", xlim=(-0.7, len(shown) - 0.3))


def _titles(view: _View, names: list[str]) -> tuple[str, str]:
    first = f"Predicted {names[view.label]}"
    if view.target is not None:
        verdict = "right" if view.target == view.label else "wrong"
        first += f", true {names[view.target]}: {verdict}"
    if not view.rivals:
        return first, f"Quite certain at {level_text(view.level)}: no interval overlaps"
    rivals = [names[index] for index in view.rivals]
    lengths = accumulate(len(f", {name}") for name in rivals)
    count = max(1, sum(length - len(", ") <= _NAMES_LENGTH for length in lengths))  # as many as there is room for
    more = f" and {len(rivals) - count} more" if count < len(rivals) else ""
    return first, f"Uncertain at {level_text(view.level)}: overlap with {', '.join(rivals[:count])}{more}"


def _draw_beside(ax: Axes, view: _View, image: Tensor | None) -> None:
    if image is not None:
        frame = ax.inset_axes((1.04, 0.56, 0.4, 0.44))
        frame.set_anchor("NW")
        style.show_image(frame, image)
    handles: list[Any] = [Patch(label="predicted", **_paint(view.label, view))]
    handles += [Patch(label="overlaps it", **_paint(index, view)) for index in view.rivals[:1]]
    handles.append(Line2D([], [], color=BLACK, marker="|", label=f"{level_text(view.level)} interval"))
    handles.append(Line2D([], [], linestyle="", marker=".", color=BLACK, label="networks\noutside it"))
    place = (1.02, 1.0 if image is None else 0.5)
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=place, numpoints=2, **style.LEGEND_OUTSIDE)


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

    `targets` are (N,), `images` (N, 1, H, W) grey or (N, 3, H, W) colour, in [0, 1]. `ax` becomes an empty frame, and
    `ax.child_axes` holds the images, at `most` so many.

    Example:
        >>> model = tb.to_bayesian(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), tau=1e-6)
        >>> images = torch.rand(9, 1, 8, 8)
        >>> pred = tb.predict(model, images, samples=50, progress=False)
        >>> ax = wrong_and_certain(pred, (pred.label + 1) % 3, images, most=4)
        >>> len(ax.child_axes)
        4
    """
    targets = check_type("pred", pred, ClassPredictive).checked_targets(targets)
    images = check_images(images, len(pred))
    names = [plain(name) for name in names_of(class_names, pred.mean.shape[1])]
    check_whole("most", most, "it counts images", least=1)
    found = confidently_wrong(pred, targets, level)
    captions = captions_of(pred, targets, found[:most], names)
    ax = style.axes_or_new(ax, *grid_size(captions))
    ax.set_axis_off()
    certain, errors = f"quite certain at {level_text(level)}", int((~pred.correct(targets)).sum())
    if not found:
        reason = f"none of the {errors} wrong predictions was {certain}" if errors else "no prediction was wrong"
        ax.text(0.5, 0.5, reason, ha="center", va="center", wrap=True, transform=ax.transAxes)
        return style.headline(ax, f"Wrong, yet {certain}: none")
    part = f" (the {most} most confident)" if most < len(found) else ""
    style.headline(ax, f"Wrong, yet {certain}:", f"{len(found)} of {errors} wrong predictions{part}")
    _draw_grid(ax, images[found[:most]], captions)
    return ax


def captions_of(pred: ClassPredictive, targets: Tensor, examples: Sequence[int], names: Sequence[str]) -> list[str]:
    """What stands under the images of these examples."""
    return [f"true {names[int(targets[i])]}\npredicted {names[int(pred.label[i])]}" for i in examples]


def grid_size(captions: Sequence[str]) -> tuple[float, float]:
    """Width and height in inches of a figure for images with these captions."""
    if not captions:
        return _WIDTH, 1.2
    columns = min(_most_columns(captions, SMALL, _WIDTH), int(_WIDTH / _CELL))
    side = min(_CELL, _FILL * _WIDTH / columns)
    return _WIDTH, 0.6 + math.ceil(len(captions) / columns) * (side + _CAPTION * SMALL)


def _most_columns(captions: Sequence[str], size: float, width: float) -> int:
    """How many captions fit side by side; the average character is about half as wide as the type is high."""
    caption = (1 + max(len(line) for caption in captions for line in caption.split("\n"))) * 0.53 * size / 72
    return max(1, min(len(captions), int(width / caption)))


def _draw_grid(ax: Axes, images: Tensor, captions: Sequence[str]) -> None:
    """The images in reading order, each in axes of its own."""
    width, height = style.size_in_inches(ax)
    side, columns, size = _best_grid(captions, width, height)
    rows = math.ceil(len(captions) / columns)
    for place, (image, caption) in enumerate(zip(images, captions, strict=True)):
        row, column = divmod(place, columns)
        x, y = (column + 0.5) * width / columns - side / 2, height - row * height / rows - side
        cell = ax.inset_axes((x / width, y / height, side / width, side / height))
        style.show_image(cell, image)
        cell.set_xlabel(caption, fontsize=size, labelpad=2)


def _best_grid(captions: Sequence[str], width: float, height: float) -> tuple[float, int, float]:
    """The largest side of images in inches, the columns it takes, and points of the captions."""
    for size in (SMALL, 0.75 * SMALL, 0.55 * SMALL):  # smaller captions only where images would be tiny
        sides = {}
        for columns in range(1, 1 + _most_columns(captions, size, width)):
            free = height / math.ceil(len(captions) / columns) - _CAPTION * size
            sides[columns] = max(0.05, min(_FILL * width / columns, free))
        side, columns = max((side, columns) for columns, side in sides.items())
        if side >= _TINY:
            break
    return side, columns, size
