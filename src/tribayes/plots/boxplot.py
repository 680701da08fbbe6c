"""What the sampled networks say about one example: one box per class, the image beside (the paper's Figs. 3-5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from torch import Tensor

from tribayes._text import level_text
from tribayes.plots.checks import check_classes, check_count, check_image, check_index, names_of
from tribayes.plots.style import BLACK, BLUE, PALE, PALE_ORANGE, SMALL, axes_or_new, headline, show_image, tidy
from tribayes.prediction import ClassPredictive
from tribayes.prediction.quantiles import quantiles

_NAMES_LENGTH = 18  # characters of class names in the title; more would not fit


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
        pred: a prediction that kept its samples.
        example: its number, in [0, N).
        image: the example itself, (H, W), (1, H, W) or (3, H, W) in [0, 1], drawn to the right.
        target: the true class.
        class_names: C names; default the classes' numbers.
        level: of the credible interval.
        most: with more classes than this, only the most probable are drawn (and the true one).
        ax: where to draw; default a new figure. The image and the legend stand to its right.

    Example:
        >>> model, images = tb.to_bayesian(nn.Sequential(nn.Flatten(), nn.Linear(64, 3))), torch.rand(9, 1, 8, 8)
        >>> pred = tb.predict(model, images, samples=50, progress=False)
        >>> ax = output_boxplot(pred, 7, image=images[7], target=2)
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('class', 'probability')
    """
    view = _view(check_classes("pred", pred), example, target, level, check_count("most", most, "it counts classes"))
    names = names_of(class_names, view.classes)
    ax = axes_or_new(ax, 5.0, 3.3)
    _draw_boxes(ax, view)
    _name_classes(ax, view, names)
    ax.set(ylim=(-0.03, 1.03), ylabel="probability")
    headline(ax, *_titles(view, names))
    _draw_beside(ax, view, None if image is None else check_image(image))
    return ax


@dataclass(frozen=True)
class _View:
    """One example, its classes restricted to those that are drawn."""

    level: float
    classes: int  # C
    label: int
    target: int | None
    rivals: list[int]  # classes whose interval overlaps the label's
    shown: list[int]
    outputs: Tensor  # (S, shown)
    lower: Tensor  # (shown,)
    upper: Tensor  # (shown,)


def _view(pred: ClassPredictive, example: int, target: int | None, level: float, most: int) -> _View:
    example = check_index("example", example, len(pred), "examples")
    classes = pred.mean.shape[1]
    target = None if target is None else check_index("target", target, classes, "classes")
    lower, upper = (bound[example] for bound in pred.interval(level))
    label = int(pred.label[example])
    overlaps = (upper >= lower[label]) & (lower <= upper[label])
    overlaps[label] = False
    chosen = set(pred.mean[example].topk(min(most, classes)).indices.tolist()) | {label}
    shown = sorted(chosen if target is None else chosen | {target})
    outputs = pred.samples[:, example, shown]
    rivals = [int(index) for index in overlaps.nonzero().flatten()]
    return _View(level, classes, label, target, rivals, shown, outputs, lower[shown], upper[shown])


def _draw_boxes(ax: Axes, view: _View) -> None:
    own = view.shown.index(view.label)
    ax.axhspan(float(view.lower[own]), float(view.upper[own]), color=BLUE, alpha=0.13, linewidth=0, zorder=0)
    tidy(ax)
    ax.grid(visible=False, axis="x")
    drawn = ax.bxp(
        _statistics(view),
        positions=range(len(view.shown)),
        widths=0.62,
        patch_artist=True,
        manage_ticks=False,
        medianprops={"color": BLACK, "linewidth": 1.6},
        flierprops={"marker": ".", "markersize": 3, "markeredgecolor": "none", "markerfacecolor": BLACK, "alpha": 0.45},
    )
    for index, box in zip(view.shown, drawn["boxes"], strict=True):
        box.set(**_paint(index, view))


def _name_classes(ax: Axes, view: _View, names: list[str]) -> None:
    """Class names below the boxes, turned where they are long or many; the predicted one is bold."""
    shown = [names[index] for index in view.shown]
    many, long = len(shown) > 12, max(map(len, shown)) > 3
    turn: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if long else {}
    ax.set_xticks(range(len(shown)), shown, **({"rotation": 90, "fontsize": SMALL} if many else turn))
    ax.get_xticklabels()[view.shown.index(view.label)].set_fontweight("bold")
    part = "" if len(shown) == view.classes else f" ({len(shown)} of {view.classes})"
    ax.set(xlabel=f"class{part}", xlim=(-0.7, len(shown) - 0.3))


def _statistics(view: _View) -> list[dict[str, Any]]:
    """What matplotlib's `bxp` wants: whiskers exactly at the interval's bounds, which its own boxplot() would round."""
    quartiles = quantiles(view.outputs.unsqueeze(1), (0.25, 0.5, 0.75)).squeeze(1)  # (3, shown)
    rows = []
    for place in range(len(view.shown)):
        outputs, low, high = view.outputs[:, place], view.lower[place], view.upper[place]
        outside = outputs[(outputs < low) | (outputs > high)]
        first, median, third = quartiles[:, place].tolist()
        bounds = {"whislo": float(low), "whishi": float(high)}
        rows.append({"q1": first, "med": median, "q3": third, "fliers": outside.tolist(), **bounds})
    return rows


def _paint(index: int, view: _View) -> dict[str, Any]:
    if index == view.label:
        return {"facecolor": BLUE, "edgecolor": BLACK}
    if index in view.rivals:
        return {"facecolor": PALE_ORANGE, "edgecolor": BLACK, "hatch": "////"}
    return {"facecolor": PALE, "edgecolor": BLACK}


def _titles(view: _View, names: list[str]) -> tuple[str, str]:
    first = f"Predicted {names[view.label]}"
    if view.target is not None:
        verdict = "right" if view.target == view.label else "wrong"
        first += f", true {names[view.target]}: {verdict}"
    if not view.rivals:
        return first, f"Quite certain at {level_text(view.level)}: no interval overlaps"
    return first, f"Uncertain at {level_text(view.level)}: overlap with {_listed([names[i] for i in view.rivals])}"


def _listed(names: list[str]) -> str:
    """The first names, as many as there is room for, and how many more there are."""
    shown = names[:1]
    for name in names[1:]:
        if len(", ".join([*shown, name])) > _NAMES_LENGTH:
            break
        shown.append(name)
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _draw_beside(ax: Axes, view: _View, image: Tensor | None) -> None:
    if image is not None:
        frame = ax.inset_axes((1.04, 0.56, 0.4, 0.44))
        frame.set_anchor("NW")
        show_image(frame, image)
    roles = {index: _paint(index, view) for index in (view.label, *view.rivals[:1])}
    words = dict(zip(roles, ("predicted", "overlaps it"), strict=False))
    handles: list[Any] = [Patch(label=words[index], **paint) for index, paint in roles.items()]
    handles.append(Line2D([], [], color=BLACK, marker="|", label=f"{level_text(view.level)} interval"))
    handles.append(Line2D([], [], linestyle="", marker=".", color=BLACK, label="networks\noutside it"))
    place = (1.02, 1.0 if image is None else 0.5)
    look: dict[str, Any] = {"frameon": False, "fontsize": SMALL, "borderaxespad": 0, "numpoints": 2}
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=place, **look)
