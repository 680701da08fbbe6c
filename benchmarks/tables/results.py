"""The results file: table → arm → one entry per split."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from benchmarks.store import RESULTS as FOLDER
from benchmarks.store import rounded
from benchmarks.tables.arms import classification, installed, regression
from benchmarks.tables.cases import TABLES
from tribayes._files import read_json, store_json

RESULTS = FOLDER / "tables.json"


class Results:
    """What was found, written after each split."""

    def __init__(self, path: Path = RESULTS) -> None:
        self.path = path
        stored = read_json(path) if path.is_file() else {}
        self.made_with: dict[str, Any] = stored.get("made_with", {})
        self.tables: dict[str, dict[str, Any]] = stored.get("tables", {})

    def has(self, table: str, split: int) -> bool:
        return str(split) in self.tables.get(table, {})

    def add(self, table: str, split: int, found: dict[str, Any]) -> None:
        """Put a split's figures in, and write the file as a whole."""
        self.tables.setdefault(table, {})[str(split)] = rounded(found)
        self.made_with = made_with()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        store_json(self.path, {"made_with": self.made_with, "tables": self.tables})

    def splits(self, table: str) -> list[dict[str, Any]]:
        """The splits of a table, in their order."""
        stored = self.tables.get(table, {})
        return [stored[number] for number in sorted(stored, key=int)]


def run(name: str, split: int, folder: Path | None) -> dict[str, Any]:
    """One split of one table: every arm learns, and is asked about the test rows."""
    table = TABLES[name]
    start = perf_counter()
    test, rows = table.load(folder, split)
    answers = (classification if table.classes else regression)(rows, test, split)
    arms = {arm: answer.figures(test.targets) | chosen for arm, (answer, chosen) in answers.items()}
    return {"rows": {"learned": len(rows), "tested": len(test)}, "arms": arms, "seconds": perf_counter() - start}


def made_with() -> dict[str, Any]:
    """Versions; None where a peer is not installed."""
    found = {name: version(name) if installed(name) else None for name in ("mapie", "ngboost")}
    known = {"python": platform.python_version(), "torch": torch.__version__, "scikit-learn": version("scikit-learn")}
    return known | found
