"""One progress bar for every long job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Advance(Protocol):
    """Move the bar on by `amount`, with a short remark to show beside it."""

    def __call__(self, amount: float = 1, remark: str = "") -> None: ...


@contextmanager
def progress_bar(description: str, total: float | None, enabled: bool = True) -> Iterator[Advance]:
    """A bar with count, share and time left, on standard error. `total` may be unknown."""
    if not enabled:
        yield _silent
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(show_speed=True),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[remark]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total, remark="")

        def advance(amount: float = 1, remark: str = "") -> None:
            bar.update(task, advance=amount, remark=remark)

        yield advance


def _silent(amount: float = 1, remark: str = "") -> None:
    del amount, remark
