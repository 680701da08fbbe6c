"""What stays of a folder of runs: their figures, and those of ensembles, which need every member's answers.

The answers themselves are 3 MB a run and are left where they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from benchmarks.modern import archive, figures
from benchmarks.modern.archive import Record
from benchmarks.modern.table import MEMBERS, Runs, ensembles
from benchmarks.store import RESULTS
from tribayes._files import make_folder, read_json, store_json

KEPT = RESULTS / "modern"

_TOGETHER = "ensembles"  # the folder of what was made of several runs

Ensemble = dict[str, Any]  # cell, members, figures, log_likelihoods of 1, 2, … of them


def keep(folder: Path, into: Path = KEPT) -> list[Path]:
    """Copy the figures of all tested runs of a folder, and add those of its ensembles; returns what was written."""
    records = [record for record in archive.records(folder) if "test" in record]
    written = {into / f"{record['name']}.json": record for record in records}
    for cell, runs in by_cell(records).items():
        if len(runs) >= MEMBERS:
            written[into / _TOGETHER / f"{cell}.json"] = _together(folder, cell, runs)
    for path, content in written.items():
        make_folder(path.parent)
        store_json(path, content)
    return list(written)


def kept(into: Path = KEPT) -> tuple[dict[str, Runs], dict[str, Ensemble]]:
    """The runs by cell and seed, and ensembles by cell."""
    together = [read_json(path) for path in sorted((into / _TOGETHER).glob("*.json"))]
    return by_cell(archive.records(into)), {one["cell"]: one for one in together}


def by_cell(records: Iterable[Record]) -> dict[str, Runs]:
    cells: dict[str, Runs] = defaultdict(dict)
    for record in records:
        cells[record["cell"]][record["settings"]["seed"]] = record
    return dict(cells)


def _together(folder: Path, cell: str, runs: Mapping[int, Record]) -> Ensemble:
    seeds = sorted(runs)[:MEMBERS]
    members = [archive.answers(folder, runs[seed]["name"]) for seed in seeds]
    asked = [torch.stack([one[name] for one in members]) for name in ("test", "held_out")]
    labels = [members[0][f"{name}_labels"] for name in ("test", "held_out")]
    return {
        "cell": cell,
        "members": [runs[seed]["name"] for seed in seeds],
        "figures": ensembles(folder, {seed: runs[seed] for seed in seeds}, "test")[0],
        "log_likelihoods": figures.ensemble_log_likelihoods(asked[0], labels[0], asked[1], labels[1]),
    }
