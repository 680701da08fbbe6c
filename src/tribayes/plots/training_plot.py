"""Training curves: the loss and its two parts, and the test error if it was watched (the paper's Figs. 1-2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from torch import Tensor

from tribayes._errors import refusal, wrong_type
from tribayes._text import percent
from tribayes.inference.fit import History
from tribayes.plots.checks import check_count, check_line
from tribayes.plots.style import BLACK, PURPLE, SMALL, Ink, axes_or_new, headline, ink, percent_ticks, tidy

Series = tuple[Sequence[int] | Tensor, Sequence[float] | Tensor]


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
        history: what `fit` returned.
        smooth: average over so many iterations, centred, with the raw values faintly behind; 1 for the raw values
            alone. Default: a fiftieth of the iterations.
        test_error: (iterations, errors), errors as shares in [0, 1], drawn on an axis of its own to the right.
        final_error: a share, drawn as a horizontal line on that axis.
        ax: where to draw; default a new figure.

    Example:
        >>> history = tb.History(loss=[2.0, 1.5, 1.2], nll=[1.0, 0.7, 0.5], kl=[100.0, 80.0, 70.0])
        >>> ax = training_curves(history, final_error=0.02)
        >>> [line.get_label() for line in ax.lines]
        ['loss', 'negative log likelihood', 'ν·KL']
    """
    if not isinstance(history, History):
        raise wrong_type("history", type(history).__name__, "be a History", "pass what tribayes.fit returned")
    if len(history) == 0:
        raise refusal("history", history, "hold at least one iteration", "train first")
    window = max(1, len(history) // 50) if smooth is None else check_count("smooth", smooth, "it counts iterations")
    loss, nll = (torch.tensor(values, dtype=torch.float64) for values in (history.loss, history.nll))
    ax = axes_or_new(ax, 4.6, 3.4)
    curves = {"loss": loss, "negative log likelihood": nll, "ν·KL": loss - nll}
    drawn = [_draw_curve(ax, name, values, window, ink(index)) for index, (name, values) in enumerate(curves.items())]
    tidy(ax)
    if min(float(nll.min()), float((loss - nll).min())) > -1e-6:  # a density's may be negative; rounding is not
        ax.set_ylim(bottom=0)
    ax.set(xlim=(0, len(loss) + 1), xlabel="iteration", ylabel="nats per example")
    if test_error is not None or final_error is not None:
        drawn += _draw_errors(ax, test_error, final_error)
    ax.legend(handles=drawn, loc="upper right", fontsize=SMALL)
    headline(ax, f"Training, {len(loss):,} iterations", *([f"Means over {window} iterations"] if window > 1 else []))
    return ax


def running_mean(values: Tensor, window: int) -> Tensor:
    """(N,) → (N,): the mean over the `window` nearest entries, fewer at the ends."""
    left = (window - 1) // 2
    padded = F.pad(torch.stack([values, torch.ones_like(values)]).unsqueeze(1), (left, window - 1 - left))
    total, count = F.conv1d(padded, torch.ones(1, 1, window, dtype=values.dtype)).squeeze(1)
    return total / count


def _draw_curve(ax: Axes, name: str, values: Tensor, window: int, look: Ink) -> Line2D:
    steps = range(1, len(values) + 1)
    if window > 1:
        ax.plot(steps, values.numpy(), color=look.colour, linewidth=0.5, alpha=0.3)
    smoothed = running_mean(values, window) if window > 1 else values
    (line,) = ax.plot(steps, smoothed.numpy(), color=look.colour, linestyle=look.line, linewidth=1.5, label=name)
    return line


def _draw_errors(ax: Axes, test_error: Series | None, final_error: float | None) -> list[Line2D]:
    """The test error on an axis to the right."""
    right = ax.twinx()
    lines: list[Line2D] = []
    largest = 0.0
    if test_error is not None:
        iterations = check_line("test_error[0]", test_error[0])
        errors = check_line("test_error[1]", test_error[1], len(iterations))
        largest = float(errors.max())
        label = "test error (right)"
        lines += right.plot(iterations.numpy(), errors.numpy(), color=PURPLE, marker="D", markersize=3, label=label)
    if final_error is not None:
        largest = max(largest, 2 * final_error)  # alone, it should not hide behind the legend
        label = f"final test error {percent(final_error, 2)} (right)"
        lines.append(right.axhline(final_error, color=BLACK, linestyle=":", linewidth=1.5, label=label))
    right.set_ylabel("test error")
    right.set_ylim(0, 1.1 * largest or 1)
    percent_ticks(right.yaxis)
    right.spines["top"].set_visible(False)
    ax.set_zorder(right.get_zorder() + 1)  # the legend above all lines
    ax.patch.set_visible(False)
    return lines
