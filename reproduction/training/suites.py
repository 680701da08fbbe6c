"""Which runs a suite has, and which of them are still without a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from reproduction.paper.trials import TRIALS
from reproduction.results.result_files import TRIAL_FOLDER, read_result
from tribayes._errors import refusal
from tribayes.recipes.experiments import EXPERIMENTS
from tribayes.recipes.setting import Setting

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
        found += [Entry(f"{TRIAL_FOLDER}{trial.name}", trial.setting.changed(**shorten), 0) for trial in TRIALS]
    return found


def pending(entries: Sequence[Entry], results: Path) -> list[Entry]:
    """Those without a result of just this setting."""
    return [entry for entry in entries if not _has_result(entry, results)]


def _has_result(entry: Entry, results: Path) -> bool:
    path = results / entry.path
    return path.is_file() and read_result(path).setting == entry.setting
