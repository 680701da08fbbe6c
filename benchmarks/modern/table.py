"""What a folder of results says: mean and standard error over seeds, differences to plain, ensembles of four."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.modern import archive
from benchmarks.modern.archive import Record
from benchmarks.modern.judging import Figures, best_temperature, judged
from tribayes._text import format_table

MEMBERS = 4
COLUMNS = (  # heading, path to the figure, factor, decimals
    ("error %", ("error",), 100, 2),
    ("NLL", ("nll",), 1, 4),
    ("ECE %", ("ece",), 100, 2),
    ("Brier", ("brier",), 1, 4),
    ("AUROC errors", ("auroc_errors",), 1, 3),
    ("NLL, scaled", ("scaled", "nll"), 1, 4),
)
MORE = (  # of test images
    ("shift NLL", ("corrupted", "mean", "nll"), 1, 3),
    ("near AUROC", ("foreign", "near", "entropy"), 1, 3),
    ("far AUROC", ("foreign", "far", "entropy"), 1, 3),
    ("people", ("people", "cross_entropy"), 1, 4),
)
DIFFERENCES = (("− plain: error %", ("error",), 100, 2), ("− plain: NLL", ("nll",), 1, 4))

Column = tuple[str, tuple[str, ...], float, int]


def table(folder: Path, test: bool = False) -> str:
    """Of held-out images, or with `test` of test images; runs without those figures are left out."""
    which = "test" if test else "held_out"
    cells: dict[str, dict[int, Record]] = defaultdict(dict)
    for record in archive.records(folder):
        if which in record:
            cells[record["cell"]][record["settings"]["seed"]] = record
    columns = COLUMNS + (MORE if test else ())
    rows = []
    for cell, runs in cells.items():
        figures = {seed: record[which] for seed, record in runs.items()}
        plain = _plain_of(next(iter(runs.values())), cells, which)
        seconds = sum(record["seconds"]["train"] for record in runs.values()) / len(runs)
        rows.append([cell, str(len(runs)), *_texts(list(figures.values()), columns)])
        rows[-1] += [*(_difference(figures, plain, one) for one in DIFFERENCES), f"{seconds:.0f}"]
    for cell, runs in cells.items():
        if together := ensembles(folder, runs, which):
            made = _texts(together, columns)
            rows.append([f"{MEMBERS} × {cell}", str(len(together)), *made, *("" for _ in DIFFERENCES), ""])
    header = [f"{which} images", "n", *(one[0] for one in columns), *(one[0] for one in DIFFERENCES), "train s"]
    failed = [f"failed: {one['name']}: {one['error'].strip().splitlines()[-1]}" for one in archive.failures(folder)]
    return "\n".join([format_table(header, rows) if rows else "no results yet", *failed])


def ensembles(folder: Path, runs: dict[int, Record], which: str) -> list[Figures]:
    """Figures of ensembles without common members, each at a temperature of its own."""
    seeds = sorted(runs)
    found = []
    for begin in range(0, len(seeds) - MEMBERS + 1, MEMBERS):
        members = [archive.answers(folder, runs[seed]["name"]) for seed in seeds[begin : begin + MEMBERS]]
        held_out = torch.stack([one["held_out"] for one in members]).mean(0)
        temperature = best_temperature(held_out, members[0]["held_out_labels"])
        mean = torch.stack([one[which] for one in members]).mean(0)
        found.append(judged(mean[None], members[0][f"{which}_labels"], temperature))
    return found


def mean_text(values: Sequence[float], decimals: int) -> str:
    """Mean ± standard error.

    >>> mean_text([1.0, 2.0, 3.0], 2), mean_text([1.0], 1), mean_text([], 1)
    ('2.00 ± 0.58', '1.0', '')
    """
    if not values:
        return ""
    mean = sum(values) / len(values)
    if len(values) == 1:
        return f"{mean:.{decimals}f}"
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))
    return f"{mean:.{decimals}f} ± {spread:.{decimals}f}"


def _texts(figures: Sequence[Figures], columns: Sequence[Column]) -> list[str]:
    return [mean_text(_values(figures, path, factor), decimals) for _, path, factor, decimals in columns]


def _difference(figures: dict[int, Figures], plain: dict[int, Figures], column: Column) -> str:
    """Seed by seed, so that what a seed has in common does not count."""
    _, path, factor, decimals = column
    common = sorted(figures.keys() & plain.keys())
    pairs = zip(*(_values([of[seed] for seed in common], path, factor) for of in (figures, plain)), strict=True)
    return mean_text([one - other for one, other in pairs], decimals)


def _plain_of(record: Record, cells: dict[str, dict[int, Record]], which: str) -> dict[int, Figures]:
    """The plain runs beside a run, by seed, trained with its rate and decay, else as usual; none beside plain itself."""
    mine = record["settings"]
    if mine["arm"] == "plain":
        return {}
    others = [(seed, other) for runs in cells.values() for seed, other in runs.items()]
    for rates in ((mine["lr"], mine["weight_decay"]), (None, None)):
        wanted = {name: mine[name] for name in ("data", "network", "epochs", "batch")}
        wanted |= {"arm": "plain", "lr": rates[0], "weight_decay": rates[1]}
        if found := {seed: other[which] for seed, other in others if wanted.items() <= _flat(other).items()}:
            return found
    return {}


def _flat(record: Record) -> Record:
    return {name: value for name, value in record["settings"].items() if name != "options"}


def _values(figures: Sequence[Figures], path: tuple[str, ...], factor: float) -> list[float]:
    """The figure at a path, of those that have it."""
    found = []
    for one in figures:
        value: Figures | float | None = one
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, int | float):
            found.append(factor * value)
    return found
