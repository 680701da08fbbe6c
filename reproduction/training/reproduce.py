"""Runs trained, judged and written down; what is there is not done again. And how long that will take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from time import perf_counter

import torch

from reproduction.results.result_files import is_full, make_result, write_result
from reproduction.training.example_outputs import example_outputs
from reproduction.training.foreign_images import out_of_distribution
from reproduction.training.side_by_side import train_sessions_side_by_side
from reproduction.training.suites import Entry
from tribayes._errors import refusal
from tribayes._text import format_table
from tribayes.data import Split, load
from tribayes.nn.module import BayesianModule
from tribayes.recipes.examples import prepare
from tribayes.recipes.recipe_run import RecipeRun
from tribayes.recipes.recipe_trainer import RecipeTrainer
from tribayes.recipes.setting import Setting
from tribayes.runs import Examples

OUTSIDE = {"mnist": "fashion-mnist"}  # what a network trained on the one is asked about, though it has never seen it


@dataclass
class Place:
    """Where data come from, where runs and results go, and on what device."""

    runs: Path
    results: Path
    device: torch.device
    data_dir: Path | None = None
    _splits: dict[str, Split] = field(default_factory=dict)

    def split(self, data: str) -> Split:
        if data not in self._splits:
            self._splits[data] = load(data, self.data_dir)
        return self._splits[data]

    def examples(self, setting: Setting) -> tuple[Examples, Examples]:
        return prepare(setting.data, self.split(setting.data), self.device, setting.validation)

    def outside(self, setting: Setting) -> Examples | None:
        """Images of another data set, for a network that is tested on all of its own."""
        other = OUTSIDE.get(setting.data)
        if other is None or setting.validation:
            return None
        return prepare(other, self.split(other), self.device)[1]


def reproduce(entries: Sequence[Entry], place: Place, side_by_side: int) -> None:
    """Make the runs, `side_by_side` at a time where they are of one kind, and write a result file for each."""
    batches = list(_batches(entries, side_by_side))
    for number, batch in enumerate(batches, 1):
        print(f"\n[{number}/{len(batches)}] " + ", ".join(f"{entry.name} (seed {entry.seed})" for entry in batch))
        started = perf_counter()
        train, test = place.examples(batch[0].setting)
        runs = [_run_of(entry, place) for entry in batch]
        _train([run for run in runs if not run.finished], train, test)
        for entry, run in zip(batch, runs, strict=True):
            print(_judge(entry, run, test, place))
        print(f"took {perf_counter() - started:.0f} s")


def _batches(entries: Sequence[Entry], size: int) -> Iterator[list[Entry]]:
    ordered = sorted(entries, key=lambda entry: entry.kind)
    for _, group in groupby(ordered, key=lambda entry: entry.kind):
        same = list(group)
        yield from (same[start : start + size] for start in range(0, len(same), size))


def _run_of(entry: Entry, place: Place) -> RecipeRun:
    folder = place.runs / entry.name / f"seed-{entry.seed}"
    if not (folder / "config.json").exists():
        return RecipeRun.create(folder, entry.setting.as_dict(), entry.seed, place.device)
    run = RecipeRun.open(folder)
    if run.setting != entry.setting or run.seed != entry.seed:
        remedy = "remove the folder, or choose another with --runs"
        raise refusal("--runs", str(folder), "hold a run of the same setting and seed", remedy)
    return run


def _train(runs: Sequence[RecipeRun], train: Examples, test: Examples) -> None:
    if not runs:
        return
    with ExitStack() as stack:
        sessions = [stack.enter_context(run.session(train, test)) for run in runs]
        train_sessions_side_by_side(sessions, runs[0].name if len(runs) == 1 else f"{len(runs)} runs")


def _judge(entry: Entry, run: RecipeRun, test: Examples, place: Place) -> str:
    """Evaluate a trained run, write its result, and say it in a line."""
    model = run.network(place.device)
    evaluation = run.evaluate(model, test, progress=False)
    if is_full(entry.name, entry.seed) and isinstance(model, BayesianModule):
        evaluation["examples"] = example_outputs(model, test, entry.seed)
    outside = place.outside(entry.setting)
    ood = None if outside is None else out_of_distribution(model, test, outside, entry.seed, progress=False)
    images = None if entry.setting.validation else place.split(entry.setting.data).test_images
    result = make_result(
        entry.name, entry.seed, entry.setting, run.records(), evaluation, run.environment(), ood=ood, images=images
    )
    path = write_result(place.results, result)
    return f"{path}: error {100 * evaluation['error']:.2f} %, NLL {evaluation['nll']:.4f}"


def estimate(entries: Sequence[Entry], place: Place, steps: int = 20) -> str:
    """How long the runs will take here, from a few steps of each experiment: one after the other, training only."""
    rows, total = [], 0.0
    settings = {entry.name: entry.setting for entry in entries}
    for name, setting in settings.items():
        count = sum(entry.name == name for entry in entries)
        seconds = _step_seconds(setting, place, steps) * setting.iterations
        total += count * seconds
        rows.append([name, count, setting.iterations, _hours(seconds), _hours(count * seconds)])
    table = format_table(["experiment", "runs", "iterations", "one run", "all"], rows)
    return f"{table}\n\nTraining will take about {_hours(total)} on this machine."


def _step_seconds(setting: Setting, place: Place, steps: int) -> float:
    trainer = RecipeTrainer(setting, place.examples(setting)[0], 0)
    trainer.advance(3)
    started = perf_counter()
    trainer.advance(steps)
    trainer.window_losses().sum().item()  # waits for the device
    return (perf_counter() - started) / steps


def _hours(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
