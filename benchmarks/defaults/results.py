"""What was measured, kept in a file: a record for each task, arm and seed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.defaults.judging import Figures
from benchmarks.defaults.plan import Arm, Job
from benchmarks.store import RESULTS as FOLDER
from benchmarks.store import made_with
from tribayes._files import make_folder, store

RESULTS = FOLDER / "defaults.json"

_DIGITS = 6


@dataclass(frozen=True)
class Record:
    """One trained network: its figures on held-out rows, or on test rows."""

    task: str
    arm: Arm
    seed: int
    figures: Figures
    seconds: float  # its share of the time that training and judging took

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Record:
        return cls(**{**values, "arm": Arm(**values["arm"])})


class Results:
    """The results file; without a path nothing is kept."""

    def __init__(self, path: Path | None = RESULTS) -> None:
        self.path = path
        stored = json.loads(path.read_text()) if path is not None and path.is_file() else {}
        self.held_out = [Record.from_json(values) for values in stored.get("held_out", [])]
        self.test = [Record.from_json(values) for values in stored.get("test", [])]
        self.made_with: dict[str, str] = stored.get("made_with", {})

    def add(self, records: Sequence[Record], test: bool) -> None:
        """Store new ones, at once."""
        (self.test if test else self.held_out).extend(records)
        self.made_with = made_with()
        if self.path is None:
            return
        content = {
            "made_with": self.made_with,
            "held_out": [_plain(one) for one in self.held_out],
            "test": [_plain(one) for one in self.test],
        }
        make_folder(self.path.parent)
        lines = json.dumps(content, separators=(",", ":"), allow_nan=False).replace('{"task"', '\n{"task"')
        store(self.path, (lines + "\n").encode())

    def has(self, job: Job, test: bool) -> bool:
        wanted = {(job.task.name, job.arm, seed) for seed in job.seeds}
        return wanted <= {(one.task, one.arm, one.seed) for one in (self.test if test else self.held_out)}


def values(records: Sequence[Record], task: str, arm: Arm, figure: str) -> dict[int, float]:
    """A figure by seed."""
    some = [one for one in records if (one.task, one.arm) == (task, arm)]
    return {one.seed: one.figures[figure] for one in some if figure in one.figures}


def _plain(record: Record) -> dict[str, Any]:
    figures = {name: float(f"{value:.{_DIGITS}g}") for name, value in record.figures.items()}
    return asdict(record) | {"figures": figures}
