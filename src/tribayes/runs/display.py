"""What a training shows while it runs: a live bar in a terminal, a line of text now and then elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import fmean
from time import monotonic
from typing import TextIO

from tribayes._progress import progress_bar
from tribayes.runs.records import Record

Show = Callable[[int, Callable[[], str]], None]  # (iteration, what to say of it); called often, draws when it is time

_SECONDS_BETWEEN = {True: 0.2, False: 10.0}  # in a terminal, and elsewhere


@contextmanager
def display(title: str, first: int, last: int, stream: TextIO | None) -> Iterator[Show]:
    """Shows a training from iteration `first` to `last`: live in a terminal, by nothing where there is no stream."""
    live = stream is not None and stream.isatty()
    started, said, shown = monotonic(), -math.inf, first
    with progress_bar(title, last - first, live, stream) as advance:

        def show(iteration: int, remark: Callable[[], str]) -> None:
            nonlocal said, shown
            now = monotonic()
            if stream is None or (now - said < _SECONDS_BETWEEN[live] and iteration < last):
                return
            count, figures = f"{iteration:,} of {last:,}", remark()
            if live:
                advance(iteration - shown, f"{count}  {figures}")
            else:
                rate = max(iteration - first, 1) / max(now - started, 1e-9)
                times = f"{rate:,.0f}/s  {_duration((last - iteration) / rate)} left"
                print(f"{title}: {count}  {times}  {figures}".rstrip(), file=stream, flush=True)
            said, shown = now, iteration

        yield show


def describe(losses: Sequence[float], records: Sequence[Record]) -> str:
    """Loss and test error, or the test NLL where there is no error (means over runs), and the ranges of τ and ρ."""
    errors = [record.one_sample_error for record in records if record.one_sample_error is not None]
    nlls = [record.test_nll for record in records if record.test_nll is not None]
    parts = [f"loss {fmean(losses):.4f}"] if losses else []
    parts += [f"error {100 * fmean(errors):.2f} %"] if errors else [f"test NLL {fmean(nlls):.4f}"] if nlls else []
    for letter, name in (("τ", "tau"), ("ρ", "rho")):
        values = [value for record in records for value in getattr(record, name).values()]
        parts += [f"{letter} {min(values):.2f} to {max(values):.2f}"] if values else []
    return "  ".join(parts)


def _duration(seconds: float) -> str:
    """75 → "1:15", 7300 → "2:01:40"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
