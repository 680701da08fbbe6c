"""`tribayes reproduce`: the runs of a suite trained, judged and written down; what is there is not done again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from time import perf_counter

import torch

from tribayes._errors import refusal
from tribayes._text import format_table
from tribayes.data import Split, load
from tribayes.experiments.catalogue import EXPERIMENTS
from tribayes.experiments.display import display_for
from tribayes.experiments.evaluation import evaluate, out_of_distribution
from tribayes.experiments.fitting import Job
from tribayes.experiments.inputs import prepare
from tribayes.experiments.results import make_result, read_result, write_result
from tribayes.experiments.run import Run
from tribayes.experiments.setting import Setting
from tribayes.experiments.trainer import Examples, Trainer
from tribayes.experiments.training import train
from tribayes.experiments.trials import TRIALS

OUTSIDE = {"mnist": "fashion-mnist"}  # what a network trained on the one is asked about, though it has never seen it

_SUITES: dict[str, Callable[[Setting], bool]] = {
    "digits": lambda setting: setting.data == "digits",
    "mnist": lambda setting: setting.data == "mnist",
    "fashion": lambda setting: setting.data == "fashion-mnist",
    "cifar10": lambda setting: setting.data == "cifar-10",
    "all": lambda _: True,
}
SUITES = (*_SUITES, "trials")


@dataclass(frozen=True)
class Entry:
    """One run to be made."""

    name: str  # of its results: an experiment, or "trials/…"
    setting: Setting
    seed: int

    @property
    def path(self) -> Path:
        return Path(self.name) / f"seed-{self.seed}.json"

    @property
    def kind(self) -> tuple[str, int, int, bool]:
        """Runs of one kind can be trained side by side: mean field, with twice the parameters, is slower."""
        setting = self.setting
        return setting.data, setting.iterations, setting.validation, setting.family == "mean_field"


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


def entries_of(suite: str, seeds: int, iterations: int | None = None) -> list[Entry]:
    """The runs of a suite; `iterations` shortens them all."""
    if suite not in SUITES:
        raise refusal("SUITE", suite, f"be one of {', '.join(SUITES)}", "correct the word")
    shorten = {} if iterations is None else {"iterations": iterations}
    found = []
    if suite != "trials":
        chosen = [setting for setting in EXPERIMENTS.values() if _SUITES[suite](setting)]
        found += [Entry(s.name, s.changed(**shorten), seed) for s in chosen for seed in range(seeds)]
    if suite in ("trials", "all"):
        found += [Entry(f"trials/{trial.name}", trial.setting.changed(**shorten), 0) for trial in TRIALS]
    return found


def pending(entries: Sequence[Entry], results: Path) -> list[Entry]:
    """Those without a result of just this setting."""
    return [entry for entry in entries if not _has_result(entry, results)]


def _has_result(entry: Entry, results: Path) -> bool:
    path = results / entry.path
    return path.is_file() and read_result(path).setting == entry.setting


def reproduce(entries: Sequence[Entry], place: Place, side_by_side: int) -> None:
    """Make the runs, `side_by_side` at a time where they are of one kind, and write a result file for each."""
    batches = list(_batches(entries, side_by_side))
    for number, batch in enumerate(batches, 1):
        print(f"\n[{number}/{len(batches)}] " + ", ".join(f"{entry.name} (seed {entry.seed})" for entry in batch))
        started = perf_counter()
        jobs = _jobs(batch, place)
        _train(batch, [job for job in jobs if not job.run.finished])
        for entry, job in zip(batch, jobs, strict=True):
            print(_judge(entry, job, place))
        print(f"took {perf_counter() - started:.0f} s")


def _batches(entries: Sequence[Entry], size: int) -> Iterator[list[Entry]]:
    ordered = sorted(entries, key=lambda entry: entry.kind)
    for _, group in groupby(ordered, key=lambda entry: entry.kind):
        same = list(group)
        yield from (same[start : start + size] for start in range(0, len(same), size))


def _jobs(batch: Sequence[Entry], place: Place) -> list[Job]:
    train_set, test_set = place.examples(batch[0].setting)
    return [Job(_run_of(entry, place), train_set, test_set) for entry in batch]


def _run_of(entry: Entry, place: Place) -> Run:
    folder = place.runs / entry.name / f"seed-{entry.seed}"
    if not folder.exists():
        return Run.create(folder, entry.setting, entry.seed, place.device)
    run = Run.open(folder)
    if run.setting != entry.setting or run.seed != entry.seed:
        remedy = "remove the folder, or choose another with --runs"
        raise refusal("--runs", str(folder), "hold a run of the same setting and seed", remedy)
    return run


def _train(batch: Sequence[Entry], jobs: Sequence[Job]) -> None:
    if not jobs:
        return
    with ExitStack() as stack:
        sessions = [job.begin(60.0, stack) for job in jobs]
        first = min(session.trainer.iteration for session in sessions)
        title = batch[0].name if len(batch) == 1 else f"{len(jobs)} runs"
        display = stack.enter_context(display_for(title, first, jobs[0].run.setting.iterations))
        train(sessions, display)


def _judge(entry: Entry, job: Job, place: Place) -> str:
    """Evaluate a trained run, write its result, and say it in a line."""
    run = job.run
    model = run.load_model(place.device)
    evaluation = evaluate(model, entry.setting, job.test, entry.seed, progress=False)
    run.save_evaluation(evaluation, place.device)
    outside = place.outside(entry.setting)
    ood = None
    if outside is not None:
        ood = out_of_distribution(model, job.test, outside, entry.seed, progress=False)
    records = run.records()
    images = None if entry.setting.validation else place.split(entry.setting.data).test_images
    seconds, environment = records[-1].seconds, run.environment()
    result = make_result(
        entry.name, entry.seed, entry.setting, records, evaluation, seconds, environment, ood=ood, images=images
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
    table = format_table(["experiment", "runs", "iterations", "a run", "all"], rows)
    return f"{table}\n\nTraining will take about {_hours(total)} on this machine."


def _step_seconds(setting: Setting, place: Place, steps: int) -> float:
    trainer = Trainer(setting, place.examples(setting)[0], 0)
    trainer.advance(3)
    started = perf_counter()
    trainer.advance(steps)
    trainer.window_losses().sum().item()  # waits for the device
    return (perf_counter() - started) / steps


def _hours(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 100
        else f"{seconds / 60:.0f} min"
        if seconds < 6000
        else f"{seconds / 3600:.1f} h"
    )
