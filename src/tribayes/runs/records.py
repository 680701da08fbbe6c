"""What a training writes down as it goes, one line of JSON per record and the same for TensorBoard, and shows."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import zip_longest
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Any, TextIO, get_args, get_origin, get_type_hints

from tribayes._errors import is_number
from tribayes._files import add_line, store
from tribayes._progress import progress_bar
from tribayes._text import printable
from tribayes.integrations.logging import TensorBoard
from tribayes.runs.trainer import WINDOW

Show = Callable[[int, Callable[[], str]], None]  # (iteration, what to say of it); called often, draws when it is time

_SECONDS_BETWEEN = {True: 0.2, False: 10.0}  # what is shown in a terminal, and elsewhere
_MOST_LINE = 2**20  # bytes of a record
_INTERVALS = (10, 20, 50, 100, 200, 500, WINDOW)  # each divides WINDOW, so no record needs losses of two windows
_SEAL = "sha256"  # key of a line's checksum
_FEWEST = 20  # records per run, where it is long enough


@dataclass(frozen=True)
class Record:
    """One line. Means and standard deviations are over the steps since the record before.

    Example:
        >>> Record(100, 0.7, 0.1, 0.6, 0.1, None, 0.01, tau={"weight": 0.05}, rho={"weight": -0.1}, seconds=1.5).nll
        0.6
    """

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
    if kind is float:
        return isinstance(value, int | float) and is_number(value) and math.isfinite(value)
    if kind is int:  # of any size: a seed is one
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


def interval_of(iterations: int) -> int:
    """How many steps a record covers."""
    return max((each for each in _INTERVALS if each <= iterations // _FEWEST), default=_INTERVALS[0])


def is_due(iteration: int, iterations: int) -> bool:
    """Whether a record is written after this iteration."""
    return iteration % interval_of(iterations) == 0 or iteration == iterations


def add_record(path: Path, record: Record) -> None:
    """Append a line, with a checksum of it: a number that was changed later does not pass for a measured one."""
    values = asdict(record)
    add_line(path, _plain(values | {_SEAL: _seal(values)}))


def read_records(path: Path) -> list[Record]:
    """All records; an error that names the line where one is damaged, or the first after some that are missing."""
    records: list[Record] = []
    for number, line in enumerate(_lines(path), 1):
        record = _parsed(line)
        if record is None or not _follows(record.iteration, [each.iteration for each in (*records[:1], *records[-1:])]):
            raise ValueError(f"{path} is damaged in line {number}; resume its run, or start anew in another folder.")
        records.append(record)
    return records


def _lines(path: Path) -> Iterator[bytes]:
    """One in memory at a time, and of one that no record fills, a part: junk of any length ends at its first."""
    with path.open("rb") as file:
        yield from iter(lambda: file.readline(_MOST_LINE), b"")


def _follows(iteration: int, first_and_last: Sequence[int]) -> bool:
    """Whether a record may come next: all are as far apart as the first is from the start; only the last is nearer."""
    every, before = first_and_last or (iteration, 0)
    return every > 0 and before % every == 0 and before < iteration <= before + every


def cut_back(path: Path, iteration: int, iterations: int) -> None:
    """Drop what was written after `iteration`, as a resumed run will write it again; what was before must be there."""
    held, kept = [], b""
    for line in _lines(path) if path.exists() else ():
        record = _parsed(line)
        if record is None or record.iteration > iteration:
            break
        held.append(record.iteration)
        kept += line
    every = interval_of(iterations)
    wanted = sorted({*range(every, iteration + 1, every), *([iteration] if iteration == iterations else [])})
    if held != wanted:
        missing = next(due or extra for due, extra in zip_longest(wanted, held) if due != extra)
        raise ValueError(
            f"{path} is damaged: its record of iteration {missing:,} is missing or not expected, while the checkpoint "
            f"is of iteration {iteration:,}; restore it, or start anew in another folder."
        )
    if not path.exists() or len(kept) < path.stat().st_size:
        store(path, kept)


def _parsed(line: bytes) -> Record | None:
    """The record of a line; None where a crash has left only a part of it, or a hand has changed it.

    A line without a checksum is taken as it is: it is of an older version.
    """
    try:
        values = json.loads(line)
        seal = values.pop(_SEAL, None)
        return Record(**values) if seal in (None, _seal(values)) else None
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _seal(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(_plain(values).encode()).hexdigest()[:16]


def _plain(values: Mapping[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False, allow_nan=False)


@contextmanager
def tensorboard_log(folder: Path, first: int) -> Iterator[Callable[[Record], None]]:
    """What a session tells of every record; events after iteration `first`, of a run cut short, are hidden."""
    with TensorBoard(folder, first=first) as board:

        def listen(record: Record) -> None:
            plain = ("loss", "nll", "one_sample_error", "test_nll", "learning_rate")
            scalars = {name: getattr(record, name) for name in plain}
            for kind, values in (("tau", record.tau), ("rho", record.rho)):
                scalars |= {f"{kind}/{tensor}": value for tensor, value in values.items()}
            board.write({name: value for name, value in scalars.items() if value is not None}, record.iteration)

        yield listen


@contextmanager
def display(title: str, first: int, last: int, stream: TextIO | None) -> Iterator[Show]:
    """Shows a training from iteration `first` to `last`: a live bar in a terminal, now and then a line elsewhere."""
    title, live = printable(title), stream is not None and stream.isatty()
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
                times = f"{rate:,.0f}/s  {timedelta(seconds=round((last - iteration) / rate))} left"
                print(f"{title}: {count}  {times}  {figures}".rstrip(), file=stream, flush=True)
            said, shown = now, iteration

        yield show


def describe(losses: Sequence[float | None], records: Sequence[Record | None]) -> str:
    """Loss and test error, or the test NLL where there is no error (means over runs), and the ranges of τ and ρ."""
    known, newest = [loss for loss in losses if loss is not None], [record for record in records if record is not None]
    errors = [record.one_sample_error for record in newest if record.one_sample_error is not None]
    nlls = [record.test_nll for record in newest if record.test_nll is not None]
    parts = [f"loss {fmean(known):.4f}"] if known else []
    parts += [f"error {100 * fmean(errors):.2f} %"] if errors else [f"test NLL {fmean(nlls):.4f}"] if nlls else []
    for letter, name in (("τ", "tau"), ("ρ", "rho")):
        values = [value for record in newest for value in getattr(record, name).values()]
        parts += [f"{letter} {min(values):.2f} to {max(values):.2f}"] if values else []
    return "  ".join(parts)
