"""What a training shows while it runs: a live line in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import fmean
from time import monotonic
from typing import TextIO

from tribayes.runs.session import Display, Glance, Session, train_sessions

_SECONDS_BETWEEN_LINES = 10.0  # in plain text
_SECONDS_BETWEEN_LOOKS = 0.2  # in a terminal


@contextmanager
def display_for(title: str, first: int, last: int, stream: TextIO | None = None) -> Iterator[Display]:
    """The display for a training from iteration `first` to `last`, live where the stream is a terminal."""
    stream = sys.stdout if stream is None else stream
    if not stream.isatty():
        yield PlainDisplay(title, first, last, stream)
        return
    with _terminal(title, first, last, stream) as display:
        yield display


def train_shown(sessions: Sequence[Session], title: str) -> None:
    """Train them to their end, with a display on standard output."""
    trainers = [session.trainer for session in sessions]
    with display_for(title, min(each.iteration for each in trainers), trainers[0].iterations) as display:
        train_sessions(sessions, display)


class NoDisplay:
    """Nothing to see."""

    def show(self, sessions: Sequence[Session]) -> None:
        del sessions


class PlainDisplay:
    """Lines of text: the first pause, every ten seconds, the last."""

    def __init__(self, title: str, first: int, last: int, stream: TextIO) -> None:
        self._title, self._last, self._stream = title, last, stream
        self._pace = _Pace(first)
        self._said: float | None = None

    def show(self, sessions: Sequence[Session]) -> None:
        iteration, now = sessions[0].trainer.iteration, monotonic()
        recently = self._said is not None and now - self._said < _SECONDS_BETWEEN_LINES
        if recently and iteration < self._last:
            return
        self._said = now
        rate = self._pace.rate(iteration)
        left = _duration((self._last - iteration) / rate)
        parts = [f"{self._title}: {iteration:,} of {self._last:,}", f"{rate:,.0f}/s", f"{left} left"]
        remark = describe([session.glance() for session in sessions])
        print("  ".join([*parts, remark] if remark else parts), file=self._stream, flush=True)


def describe(glances: Sequence[Glance]) -> str:
    """Loss and test error, or the test NLL where there is no error (means over runs), and the ranges of τ and ρ."""
    losses = [glance.loss for glance in glances if glance.loss is not None]
    errors = [glance.error for glance in glances if glance.error is not None]
    nlls = [glance.test_nll for glance in glances if glance.test_nll is not None]
    parts = [f"loss {fmean(losses):.4f}"] if losses else []
    parts += [f"error {100 * fmean(errors):.2f} %"] if errors else [f"test NLL {fmean(nlls):.4f}"] if nlls else []
    parts += _range("τ", [tau for glance in glances for tau in glance.tau])
    parts += _range("ρ", [rho for glance in glances for rho in glance.rho])
    return "  ".join(parts)


def _range(name: str, values: Sequence[float]) -> list[str]:
    return [f"{name} {min(values):.2f} to {max(values):.2f}"] if values else []


class _Pace:
    """Iterations per second since this process began to train."""

    def __init__(self, first: int) -> None:
        self._first, self._started = first, monotonic()

    def rate(self, iteration: int) -> float:
        return max(iteration - self._first, 1) / max(monotonic() - self._started, 1e-9)


def _duration(seconds: float) -> str:
    """75 → "1:15", 7300 → "2:01:40"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def _terminal(title: str, first: int, last: int, stream: TextIO) -> Iterator[Display]:
    """A bar by rich with count, rate, time taken and time left; the figures below it, where 80 columns hold them."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    rate = TextColumn("{task.fields[rate]:,.0f}/s")
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    bar = Progress(TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn(), rate, *times)
    task = bar.add_task(title, total=last, completed=first, rate=0.0)
    pace, remark = _Pace(first), Text()

    class Terminal:
        looked = 0.0

        def show(self, sessions: Sequence[Session]) -> None:
            iteration = sessions[0].trainer.iteration
            if monotonic() - self.looked < _SECONDS_BETWEEN_LOOKS and iteration < last:
                return
            self.looked = monotonic()
            bar.update(task, completed=iteration, rate=pace.rate(iteration))
            remark.plain = describe([session.glance() for session in sessions])

    with Live(Group(bar, remark), console=Console(file=stream)):
        yield Terminal()
