"""One progress bar for every long job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TextIO


class Advance(Protocol):
    """Move the bar on by `amount`, with a remark to show below it."""

    def __call__(self, amount: float = 1, remark: str = "") -> None: ...


@contextmanager
def progress_bar(
    description: str, total: float | None, enabled: bool = True, stream: TextIO | None = None
) -> Iterator[Advance]:
    """A bar with share, rate, time taken and time left, on standard error or a stream. `total` may be unknown."""
    if not enabled:
        yield lambda *_, **__: None
        return
    from rich import progress
    from rich.console import Console
    from rich.text import Text

    class Bar(progress.Progress):
        def get_renderables(self) -> Iterator[Any]:
            yield from super().get_renderables()
            yield from (Text(task.fields["remark"]) for task in self.tasks if task.fields["remark"])

    columns = (
        progress.TextColumn("{task.description}", markup=False),  # a name may hold brackets
        progress.BarColumn(),
        progress.TaskProgressColumn(show_speed=True),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(file=stream, stderr=stream is None)) as bar:
        task = bar.add_task(description, total=total, remark="")

        def advance(amount: float = 1, remark: str = "") -> None:
            bar.update(task, advance=amount, remark=remark)

        yield advance
