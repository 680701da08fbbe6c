"""What is run, and the file that keeps it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import sklearn
import torch

import tribayes as tb
from benchmarks import peers
from benchmarks.coverage.cases import TASKS, Task
from benchmarks.coverage.training import trained
from benchmarks.coverage.ways import split_figures
from benchmarks.store import RESULTS as FOLDER
from benchmarks.store import rounded
from tribayes._files import read_json, store_json
from tribayes._progress import Advance

RESULTS = FOLDER / "coverage.json"
KL_WEIGHTS = (0.01, 1.0)  # of diabetes, beside "auto"


@dataclass(frozen=True)
class Job:
    """Splits of a set whose networks are trained together."""

    task: Task
    splits: tuple[int, ...]
    kl_weight: float | str = "auto"

    @property
    def key(self) -> str:
        return arm(self.task.name, self.kl_weight)

    @property
    def work(self) -> float:
        """In steps of the bar: those of training, and as many again for the questions."""
        return 2.0 * self.task.recipe.steps


def arm(name: str, kl_weight: float | str = "auto") -> str:
    """How the file calls a set, or a set trained with another weight of the divergence."""
    return name if kl_weight == "auto" else f"{name}, kl_weight={kl_weight:g}"


def jobs(names: Sequence[str] = tuple(TASKS)) -> list[Job]:
    """All splits of a set at once; the large networks of Fashion-MNIST one by one."""
    planned = []
    for name in names:
        task = TASKS[name]
        numbers = range(task.splits)
        parts = [(number,) for number in numbers] if name == "fashion-mnist" else [tuple(numbers)]
        planned += [Job(task, part) for part in parts]
        if name == "diabetes":
            planned += [Job(task, tuple(numbers), weight) for weight in KL_WEIGHTS]
    return planned


def quick(job: Job) -> Job:
    """The same with a few steps and at most two splits."""
    return replace(job, task=replace(job.task, recipe=replace(job.task.recipe, steps=20)), splits=job.splits[:2])


class Results:
    """The results file: arm → number of the split → figures."""

    def __init__(self, path: Path = RESULTS) -> None:
        self.path = path
        stored = read_json(path) if path.is_file() else {}
        self.arms: dict[str, dict[str, Any]] = stored.get("arms", {})
        self.made_with: dict[str, Any] = stored.get("made_with", {})

    def has(self, job: Job) -> bool:
        return all(str(number) in self.arms.get(job.key, {}) for number in job.splits)

    def add(self, job: Job, figures: Sequence[dict[str, Any]]) -> None:
        """Put figures in, and write the file as a whole."""
        self.arms.setdefault(job.key, {}).update(zip(map(str, job.splits), map(rounded, figures), strict=True))
        self.made_with = made_with()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        store_json(self.path, {"made_with": self.made_with, "arms": self.arms})

    def splits(self, key: str) -> list[dict[str, Any]]:
        """The figures of an arm's splits, in their order."""
        stored = self.arms.get(key, {})
        return [stored[number] for number in sorted(stored, key=int)]


def run(job: Job, data_dir: Path, advance: Advance, site: Path = peers.SITE) -> list[dict[str, Any]]:
    """Train the networks of a job, and judge them."""
    start = perf_counter()
    cases = [job.task.load(data_dir, number) for number in job.splits]

    def remarked(amount: float = 1, remark: str = "") -> None:
        advance(amount, remark or f"{job.key}: training")

    objectives = trained(cases, job.splits, job.task.recipe, job.kl_weight, remarked)
    found = []
    for number, case, objective in zip(job.splits, cases, objectives, strict=True):
        rows = {part: len(getattr(case, part)) for part in ("train", "held", "test")}
        figures = split_figures(objective, case, number, site)
        found.append({"rows": rows, "kl_weight": objective_weight(objective), **figures})
        advance(job.work / 2 / len(cases), f"{job.key}: asking")
    seconds = (perf_counter() - start) / len(cases)
    return [one | {"seconds": seconds} for one in found]


def objective_weight(objective: Any) -> float:
    """The weight of the divergence as a number."""
    objective.elbo.stage(objective.model)  # "auto" depends on the number of weights
    return objective.elbo.weight()


def made_with() -> dict[str, Any]:
    """Versions, and how it was computed."""
    try:
        peers.find("mapie")
        mapie = version("mapie")
    except peers.NotInstalled:
        mapie = None
    return {
        "tribayes": tb.__version__,
        "torch": torch.__version__,
        "scikit-learn": sklearn.__version__,
        "mapie": mapie,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
    }
