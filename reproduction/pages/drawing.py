"""How the pictures of the page are drawn, from plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from reproduction.results.packing import OUTPUT_UNIT, unpack_image, unpack_outputs
from tribayes._text import percent
from tribayes.plots import output_boxplot
from tribayes.plots.style import (
    BLACK,
    BLUE,
    PALE_BLUE,
    SMALL,
    VERMILLION,
    headline,
    ink,
    percent_ticks,
    plain,
    show_image,
    tidy,
)
from tribayes.prediction import ClassPredictive
from tribayes.prediction.samples import Drawn
from tribayes.prediction.source import Kept

_COLUMNS = 8  # images in a row, as in the paper's Figure 6


def draw_training(panels: Sequence[Mapping[str, Any]]) -> Figure:
    """Loss and one-sample test error along the training, one panel per network, on common axes."""
    figure = Figure(figsize=(4.9 * len(panels), 3.3), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    losses = [value for panel in panels for value in panel["loss"]]
    errors = [value for panel in panels for value in (*_settled(panel["one_sample_error"]), panel["error"])]
    for ax, panel in zip(axes, panels, strict=True):
        _draw_loss(ax, panel)
        ax.set_ylim(0.8 * min(losses), 2.5 * max(losses))  # room for the legend
        right = _draw_error(ax, panel)
        right.set_ylim(0, min(1.0, 1.6 * max(errors)))
        headline(ax, panel["title"])
    return figure


def draw_boxplot(example: Mapping[str, Any]) -> Figure:
    """What the sampled networks say of one image."""
    outputs = unpack_outputs(example["outputs"]).float() / OUTPUT_UNIT
    pred = ClassPredictive(Kept(outputs.unsqueeze(1)), Drawn(0, tuple(range(len(outputs)))))
    names = example.get("class_names")
    figure = Figure(figsize=(5.0, 3.7 if names else 3.1), layout="constrained")  # names are turned, and take room
    image = unpack_image(example["image"]) if "image" in example else None
    output_boxplot(pred, 0, image=image, target=example["true"], class_names=names, ax=figure.subplots())
    return figure


def draw_wrong(wrong: Mapping[str, Any]) -> Figure:
    """The confidently wrong images, each with its true and its predicted class."""
    columns = min(_COLUMNS, len(wrong["images"]))
    rows = math.ceil(len(wrong["images"]) / columns)
    figure = Figure(figsize=(1.05 * columns, 1.45 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax in axes:
        ax.set_axis_off()
    images = zip(axes, wrong["images"], wrong["true"], wrong["predicted"], strict=False)
    for ax, packed, true, predicted in images:
        ax.set_axis_on()
        show_image(ax, unpack_image(packed))
        ax.set_xlabel(plain(f"true {true}\npredicted {predicted}"), fontsize=SMALL)
    return figure


def draw_paths(panels: Sequence[Mapping[str, Any]]) -> Figure:
    """τ and ρ of each layer's weights along the training; the paper's final value at the right edge."""
    figure = Figure(figsize=(4.9 * len(panels), 3.3), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for ax, panel in zip(axes, panels, strict=True):
        for place, (tensor, values) in enumerate(panel["values"].items()):
            look = ink(place)
            ax.plot(panel["iteration"], values, color=look.colour, linestyle=look.line, label=tensor)
            if tensor in panel["paper"]:
                end = (panel["iteration"][-1], panel["paper"][tensor])
                ax.plot(*end, color=look.colour, marker="D", clip_on=False, zorder=5)
        _iterations(ax, panel["iteration"])
        tidy(ax)
        ax.set_ylabel(panel["label"])
        ax.legend(fontsize=SMALL, frameon=False)
        headline(ax, panel["title"])
    return figure


def draw_scatter(panels: Sequence[Mapping[str, Any]]) -> Figure:
    """The spread of the likelihood term within each stretch of steps, relative to its mean, one line per model."""
    figure = Figure(figsize=(4.9 * len(panels), 3.3), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for ax, panel in zip(axes, panels, strict=True):
        for place, (title, line) in enumerate(panel["lines"].items()):
            look = ink(place)
            ax.plot(line["iteration"], line["relative"], color=look.colour, linestyle=look.line, label=title)
        _iterations(ax, max((line["iteration"] for line in panel["lines"].values()), key=lambda steps: steps[-1]))
        tidy(ax)
        ax.set_ylim(bottom=0)
        ax.set_ylabel("spread of the likelihood term / mean")
        ax.legend(fontsize=SMALL, frameon=False)
        headline(ax, panel["title"])
    return figure


def _settled(errors: Sequence[float]) -> Sequence[float]:
    """Without those of the first steps, which would flatten the rest of the curve."""
    return errors[len(errors) // 20 :]


def _draw_loss(ax: Axes, panel: Mapping[str, Any]) -> None:
    iterations, loss, spread = (torch.tensor(panel[name]) for name in ("iteration", "loss", "loss_std"))
    ax.plot(iterations, loss, color=BLUE, linewidth=1.5, label="loss")
    label = "+ standard deviation over steps"  # not −: it often exceeds the mean, and a log scale has no place for that
    ax.fill_between(iterations, loss, loss + spread, color=PALE_BLUE, alpha=0.5, linewidth=0, label=label)
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_ylabel("loss, nats per example")
    _iterations(ax, panel["iteration"])
    tidy(ax)


def _draw_error(ax: Axes, panel: Mapping[str, Any]) -> Axes:
    right = ax.twinx()
    label = "test error" if panel["frequentist"] else "one-sample test error"
    (line,) = right.plot(
        panel["iteration"], panel["one_sample_error"], color=VERMILLION, linewidth=1, linestyle="--", label=label
    )
    final = f"final test error {percent(panel['error'], 2)}"
    (level,) = [right.axhline(panel["error"], color=BLACK, linestyle=":", linewidth=1.5, label=final)]
    right.set_ylabel("test error")
    percent_ticks(right.yaxis)
    right.spines["top"].set_visible(False)
    handles, _ = ax.get_legend_handles_labels()
    right.legend(handles=[*handles, line, level], loc="upper right", fontsize=SMALL)
    return right


def _iterations(ax: Axes, iterations: Sequence[int]) -> None:
    ax.set(xlim=(0, iterations[-1]), xlabel="iteration")
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
