"""What stays of a folder of runs: their figures, and those of ensembles, which need every member's answers.

Of runs that saw no test image, by which settings were chosen, the figures of held-out images stay. The answers
themselves are 3 MB a run and are left where they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.modern import archive, figures
from benchmarks.modern.archive import Record
from benchmarks.modern.table import MEMBERS, Runs, ensembles
from benchmarks.store import RESULTS
from tribayes._files import make_folder, read_json, store_json

KEPT = RESULTS / "modern"

_FEWEST = 3  # members of an ensemble; with more seeds it is one of MEMBERS
_TOGETHER = "ensembles"  # the folder of what was made of several runs
_TRIALS = "trials"  # the folder of runs by which settings were chosen, a file for each data set and network

Ensemble = dict[str, Any]  # cell, members, figures, log_likelihoods of 1, 2, … of them
Trial = dict[str, Any]  # cell, settings, held_out


class Kept(NamedTuple):
    """Tested runs by cell and seed, ensembles by cell, and trials by the beginning of their cells, DATA-NETWORK."""

    runs: dict[str, Runs]
    ensembles: dict[str, Ensemble]
    trials: dict[str, list[Trial]]


def keep(folder: Path, into: Path = KEPT) -> list[Path]:
    """Copy the figures of all runs of a folder, and add those of its ensembles; returns what was written."""
    every = archive.records(folder)
    records = [record for record in every if "test" in record]
    written: dict[Path, Any] = {into / f"{record['name']}.json": record for record in records}
    for name, trials in _trials(record for record in every if "test" not in record).items():
        written[into / _TRIALS / f"{name}.json"] = trials
    for cell, runs in by_cell(records).items():
        if len(runs) >= _FEWEST:
            written[into / _TOGETHER / f"{cell}.json"] = _together(folder, cell, runs)
    for path, content in written.items():
        make_folder(path.parent)
        store_json(path, content)
    return list(written)


def kept(into: Path = KEPT) -> Kept:
    """What was kept of all folders."""
    together = [read_json(path) for path in sorted((into / _TOGETHER).glob("*.json"))]
    trials = {path.stem: read_json(path) for path in sorted((into / _TRIALS).glob("*.json"))}
    return Kept(by_cell(archive.records(into)), {one["cell"]: one for one in together}, trials)


def _trials(records: Iterable[Record]) -> dict[str, list[Trial]]:
    found: dict[str, list[Trial]] = defaultdict(list)
    for record in records:
        name = f"{record['settings']['data']}-{record['settings']['network']}"
        found[name].append({key: record[key] for key in ("cell", "settings", "held_out")})
    return dict(found)


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
        "figures": ensembles(folder, {seed: runs[seed] for seed in seeds}, "test", len(seeds))[0],
        "log_likelihoods": figures.ensemble_log_likelihoods(asked[0], labels[0], asked[1], labels[1]),
    }
