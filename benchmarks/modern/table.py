"""What a folder of results says: mean and standard error over seeds, differences to plain, ensembles of four."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.modern import archive, figures
from benchmarks.modern.archive import Record
from benchmarks.modern.figures import Difference, Figures
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
Runs = dict[int, Record]  # by seed


def table(folder: Path, test: bool = False) -> str:
    """Of held-out images, or with `test` of test images; runs without those figures are left out."""
    which = "test" if test else "held_out"
    cells: dict[str, Runs] = defaultdict(dict)
    for record in archive.records(folder):
        if which in record:
            cells[record["cell"]][record["settings"]["seed"]] = record
    columns = COLUMNS + (MORE if test else ())
    rows = [_row(cell, runs, cells, which, columns) for cell, runs in cells.items()]
    for cell, runs in cells.items():
        if together := ensembles(folder, runs, which):
            made = _texts(together, columns)
            rows.append([f"{MEMBERS} × {cell}", str(len(together)), *made, *("" for _ in DIFFERENCES), ""])
    header = [f"{which} images", "n", *(one[0] for one in columns), *(one[0] for one in DIFFERENCES), "train s"]
    shown = [format_table(header, rows) if rows else "no results yet"]
    shown += equivalents(folder, cells) if test else []
    shown += [f"failed: {one['name']}: {one['error'].strip().splitlines()[-1]}" for one in archive.failures(folder)]
    return "\n".join(shown)


def _row(cell: str, runs: Runs, cells: Mapping[str, Runs], which: str, columns: Sequence[Column]) -> list[str]:
    own = {seed: record[which] for seed, record in runs.items()}
    plain = {seed: record[which] for seed, record in _plain_of(next(iter(runs.values())), cells).items()}
    seconds = sum(record["seconds"]["train"] for record in runs.values()) / len(runs)
    differences = [_difference(own, plain, one) for one in DIFFERENCES]
    return [cell, str(len(runs)), *_texts(list(own.values()), columns), *differences, f"{seconds:.0f}"]


def ensembles(folder: Path, runs: Runs, which: str, size: int = MEMBERS) -> list[Figures]:
    """Figures of ensembles of that size without common members, each at a temperature of its own.

    Of more than ten classes only some corrupted images are kept (judging.KEPT): the shift is then over those.
    """
    seeds = sorted(runs)
    found = []
    for begin in range(0, len(seeds) - size + 1, size):
        members = [archive.answers(folder, runs[seed]["name"]) for seed in seeds[begin : begin + size]]
        sets = [name for name in members[0] if not name.endswith("_labels")]
        means = {name: torch.stack([one[name] for one in members]).mean(0) for name in sets}
        temperature = figures.best_temperature(means["held_out"], members[0]["held_out_labels"])
        labels = members[0][f"{which}_labels"]
        found.append(figures.figures(means[which], labels, temperature=temperature))
        if which == "test":
            found[-1] |= _further(means, labels)
    return found


def _further(means: Mapping[str, Tensor], labels: Tensor) -> Figures:
    """What else was asked about beside the test images themselves."""
    told: Figures = {"foreign": {}}
    each = {}
    for name, mean in means.items():
        which, _, rest = name.partition("_")
        if which == "foreign":
            told["foreign"][rest] = figures.told_apart(means["test"], mean)
        elif which == "corrupted":
            kind, _, severity = rest.rpartition("_")
            each[kind, int(severity)] = figures.scores(mean, labels[: len(mean)])
    return told | {"corrupted": figures.over_corruptions(each) if each else {}}


def equivalents(folder: Path, cells: Mapping[str, Runs]) -> list[str]:
    """A line for each cell: how many plain networks have its calibrated test log-likelihood together."""
    lines = []
    for cell, runs in cells.items():
        plain = _plain_of(next(iter(runs.values())), cells)
        if len(plain) < 2:
            continue
        members = [archive.answers(folder, plain[seed]["name"]) for seed in sorted(plain)]
        stacks = [torch.stack([one[name] for one in members]) for name in ("test", "held_out")]
        known = [members[0][f"{name}_labels"] for name in ("test", "held_out")]
        reached = figures.ensemble_log_likelihoods(stacks[0], known[0], stacks[1], known[1])
        own = _values([record["test"] for record in runs.values()], ("scaled", "nll"), -1)
        lines.append(f"{figures.equivalent_text(sum(own) / len(own), reached):>5} plain networks: {cell}")
    return lines


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


def difference_text(found: Difference, digits: int) -> str:
    """A difference with its interval, bold where zero lies outside.

    >>> difference_text(Difference(-0.0123, -0.02, -0.001, 5), 4)
    '**−0.0123** (−0.0200 to −0.0010)'
    """
    mean, lower, upper = (f"{value:+.{digits}f}".replace("-", "−") for value in (found.mean, found.lower, found.upper))
    return f"**{mean}** ({lower} to {upper})" if found.clear else f"{mean} ({lower} to {upper})"


def _texts(each: Sequence[Figures], columns: Sequence[Column]) -> list[str]:
    return [mean_text(_values(each, path, factor), decimals) for _, path, factor, decimals in columns]


def _difference(own: Mapping[int, Figures], plain: Mapping[int, Figures], column: Column) -> str:
    """Seed by seed, so that what a seed has in common does not count."""
    _, path, factor, decimals = column
    common = sorted(own.keys() & plain.keys())
    pairs = zip(*(_values([of[seed] for seed in common], path, factor) for of in (own, plain)), strict=True)
    return mean_text([one - other for one, other in pairs], decimals)


def _plain_of(record: Record, cells: Mapping[str, Runs]) -> Runs:
    """The plain runs beside a run, by seed, with its rate and decay, else with the usual ones; none beside plain."""
    mine = record["settings"]
    if mine["arm"] == "plain":
        return {}
    others = [(seed, other) for runs in cells.values() for seed, other in runs.items()]
    for rates in ((mine["lr"], mine["weight_decay"]), (None, None)):
        wanted = {name: mine[name] for name in ("data", "network", "epochs", "batch")}
        wanted |= {"arm": "plain", "lr": rates[0], "weight_decay": rates[1]}
        if found := {seed: other for seed, other in others if wanted.items() <= _flat(other).items()}:
            return found
    return {}


def _flat(record: Record) -> Record:
    return {name: value for name, value in record["settings"].items() if name != "options"}


def _values(each: Sequence[Figures], path: tuple[str, ...], factor: float) -> list[float]:
    """The figure at a path, of those that have it."""
    found = []
    for one in each:
        value: Figures | float | None = one
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, int | float):
            found.append(factor * value)
    return found
