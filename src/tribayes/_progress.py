"""One progress bar for every long job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[str], None]


@contextmanager
def progress_bar(description: str, total: int | None, enabled: bool = True) -> Iterator[Advance]:
    """A bar with count, rate and time left. Call what is yielded once a step, with a short remark to show."""
    if not enabled:
        yield lambda _remark: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[remark]}"),
    )
    with Progress(*columns) as bar:
        task = bar.add_task(description, total=total, remark="")
        yield lambda remark: bar.update(task, advance=1, remark=remark)
