"""What a training writes down as it goes: one line of JSON per record, and the same for TensorBoard."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import takewhile, zip_longest
from pathlib import Path

from tribayes._errors import is_number
from tribayes._files import add_line, store
from tribayes.runs.trainer import WINDOW

_INTERVALS = (10, 20, 50, 100, 200, 500, 1000)  # each divides WINDOW, so no record needs losses of two windows
_FEWEST = 20  # records per run, where it is long enough


@dataclass(frozen=True)
class Record:
    """One line. Means and standard deviations are over the steps since the record before."""

    iteration: int
    loss: float  # nats per example
    loss_std: float
    nll: float
    nll_std: float
    one_sample_error: float | None  # share of wrong labels on the test set; None without one, or without labels
    learning_rate: float
    tau: Mapping[str, float]  # by tensor; empty for a network without random weights
    rho: Mapping[str, float]
    seconds: float  # of training, all parts of a resumed run together
    test_nll: float | None = None  # under the same draws, nats per example

    def __post_init__(self) -> None:
        numbers = (self.iteration, self.loss, self.loss_std, self.nll, self.nll_std, self.learning_rate, self.seconds)
        optional = [value for value in (self.one_sample_error, self.test_nll) if value is not None]
        values = [*numbers, *optional, *dict(self.tau).values(), *dict(self.rho).values()]
        if not all(map(is_number, values)) or not isinstance(self.iteration, int):
            raise TypeError("a record holds numbers")


def interval_of(iterations: int) -> int:
    """How many steps a record covers."""
    fitting = [interval for interval in _INTERVALS if interval <= min(WINDOW, iterations // _FEWEST)]
    return fitting[-1] if fitting else _INTERVALS[0]


def is_due(iteration: int, iterations: int) -> bool:
    """Whether a record is written after this iteration."""
    return iteration % interval_of(iterations) == 0 or iteration == iterations


def add_record(path: Path, record: Record) -> None:
    add_line(path, json.dumps(asdict(record), ensure_ascii=False, allow_nan=False))


def read_records(path: Path) -> list[Record]:
    """All records; an error that names the line where one is damaged."""
    lines = path.read_bytes().splitlines()
    found = [_parsed(line) for line in lines]
    for number, record in enumerate(found, 1):
        if record is None:
            raise ValueError(f"{path} is damaged in line {number}; resume its run, or start anew in another folder.")
    return [record for record in found if record is not None]


def cut_back(path: Path, iteration: int, iterations: int) -> None:
    """Drop what was written after `iteration`, as a resumed run will write it again; what was before must be there."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    kept = list(takewhile(lambda line: _is_until(line, iteration), lines))
    held = [record.iteration for line in kept if (record := _parsed(line))]
    interval = interval_of(iterations)
    wanted = list(range(interval, iteration + 1, interval))
    wanted += [iteration] if iteration == iterations and iteration % interval else []
    if held != wanted:
        pairs = zip_longest(wanted, held)
        missing = next(due or extra for due, extra in pairs if due != extra)
        raise ValueError(
            f"{path} is damaged: its record of iteration {missing:,} is missing or not expected, while the checkpoint "
            f"is of iteration {iteration:,}; restore it, or start anew in another folder."
        )
    if kept != lines or not path.exists():
        store(path, b"".join(kept))


def _is_until(line: bytes, iteration: int) -> bool:
    record = _parsed(line)
    return record is not None and record.iteration <= iteration


def _parsed(line: bytes) -> Record | None:
    """The record of a line; None where a crash or a hand has left only a part of it."""
    try:
        return Record(**json.loads(line))
    except (ValueError, TypeError):
        return None


@contextmanager
def tensorboard_log(folder: Path, first: int) -> Iterator[Callable[[Record], None]]:
    """What a session tells of every record; events after iteration `first`, of a run cut short, are hidden."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ImportError(
            "--tensorboard writes with TensorBoard, which is not installed; "
            "install it with: pip install 'tribayes[tensorboard]'"
        ) from error
    with SummaryWriter(str(folder), purge_step=first + 1) as writer:

        def listen(record: Record) -> None:
            for name in ("loss", "nll", "one_sample_error", "test_nll", "learning_rate"):
                if getattr(record, name) is not None:
                    writer.add_scalar(name, getattr(record, name), record.iteration)
            for kind, values in (("tau", record.tau), ("rho", record.rho)):
                for tensor, value in values.items():
                    writer.add_scalar(f"{kind}/{tensor}", value, record.iteration)
            writer.flush()

        yield listen
