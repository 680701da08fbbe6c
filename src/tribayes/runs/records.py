"""What a training writes down as it goes: one line of JSON per record, and the same for TensorBoard."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from tribayes._errors import is_number
from tribayes._files import add_line, store
from tribayes.runs.trainer import WINDOW

_INTERVALS = (10, 20, 50, 100, 200, 500, WINDOW)  # each divides WINDOW, so no record needs losses of two windows
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
        if not all(is_of(kind, getattr(self, name)) for name, kind in get_type_hints(Record).items()):
            raise TypeError("a record holds finite numbers")


def is_of(kind: Any, value: Any) -> bool:
    """Whether a value that came from JSON is of the type of a field: a number is finite, and no bool."""
    if get_origin(kind) is Mapping:
        return isinstance(value, dict) and all(is_of(get_args(kind)[1], each) for each in value.values())
    if get_args(kind):  # this or None
        return any(is_of(one, value) for one in get_args(kind))
    if kind in (int, float):
        return is_number(value) and math.isfinite(value) and isinstance(value, int | kind)
    return isinstance(value, kind)


def interval_of(iterations: int) -> int:
    """How many steps a record covers."""
    return max((each for each in _INTERVALS if each <= iterations // _FEWEST), default=_INTERVALS[0])


def is_due(iteration: int, iterations: int) -> bool:
    """Whether a record is written after this iteration."""
    return iteration % interval_of(iterations) == 0 or iteration == iterations


def add_record(path: Path, record: Record) -> None:
    add_line(path, json.dumps(asdict(record), ensure_ascii=False, allow_nan=False))


def read_records(path: Path) -> list[Record]:
    """All records; an error that names the line where one is damaged."""
    records = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if (record := _parsed(line)) is None:
            raise ValueError(f"{path} is damaged in line {number}; resume its run, or start anew in another folder.")
        records.append(record)
    return records


def cut_back(path: Path, iteration: int, iterations: int) -> None:
    """Drop what was written after `iteration`, as a resumed run will write it again; what was before must be there."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    parsed = takewhile(lambda record: record is not None and record.iteration <= iteration, map(_parsed, lines))
    held = [record.iteration for record in parsed if record is not None]
    interval = interval_of(iterations)
    wanted = [*range(interval, iteration + 1, interval)]
    wanted += [iteration] if iteration == iterations and iteration % interval else []
    if held != wanted:
        missing = next(due or extra for due, extra in zip_longest(wanted, held) if due != extra)
        raise ValueError(
            f"{path} is damaged: its record of iteration {missing:,} is missing or not expected, while the checkpoint "
            f"is of iteration {iteration:,}; restore it, or start anew in another folder."
        )
    if len(held) < len(lines) or not path.exists():
        store(path, b"".join(lines[: len(held)]))


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
            scalars = {name: getattr(record, name) for name in ("loss", "nll", "one_sample_error", "test_nll")}
            scalars["learning_rate"] = record.learning_rate
            for kind, values in (("tau", record.tau), ("rho", record.rho)):
                scalars |= {f"{kind}/{tensor}": value for tensor, value in values.items()}
            for name, value in scalars.items():
                if value is not None:
                    writer.add_scalar(name, value, record.iteration)
            writer.flush()

        yield listen
