"""What was measured, kept in a file, and the two runs that fill it."""

from __future__ import annotations

import json
import math
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

import tribayes as tb
from benchmarks.uci.recipe import FAMILIES, SEED, Recipe
from benchmarks.uci.splits import Split
from benchmarks.uci.training import Figures, run
from tribayes._files import store
from tribayes._progress import Advance, progress_bar

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "uci.json"
TABLE = ROOT / "docs" / "uci.md"


@dataclass(frozen=True)
class Measurement:
    """One recipe and family on the splits of one set."""

    data_set: str
    family: str
    recipe: Recipe
    figures: tuple[Figures, ...]  # a split each, counting from 0
    seed: int
    seconds: float

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Measurement:
        recipe, figures = Recipe(**values["recipe"]), tuple(Figures(**one) for one in values["figures"])
        return cls(**{**values, "recipe": recipe, "figures": figures})

    @property
    def key(self) -> tuple[str, str, Recipe, int]:
        return self.data_set, self.family, self.recipe, len(self.figures)

    def values(self, name: str) -> list[float]:
        return [getattr(one, name) for one in self.figures]

    def mean(self, name: str) -> float:
        return statistics.fmean(self.values(name))

    def standard_error(self, name: str) -> float:
        values = self.values(name)
        return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan


class Results:
    """The results file: recipes tried on held-out training rows, and the test figures."""

    def __init__(self, path: Path) -> None:
        self.path = path
        stored = json.loads(path.read_text()) if path.is_file() else {}
        self.exploration: list[dict[str, Any]] = stored.get("exploration", [])
        self.validation = [Measurement.from_json(values) for values in stored.get("validation", [])]
        self.tests = [Measurement.from_json(values) for values in stored.get("tests", [])]
        self.made_with: dict[str, Any] = stored.get("made_with", {})

    def save(self) -> None:
        """Write the file as a whole or not at all."""
        self.made_with = _made_with()
        content = {
            "made_with": self.made_with,
            "tests": [asdict(one) for one in self.tests],
            "validation": [asdict(one) for one in self.validation],
            "exploration": self.exploration,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        store(self.path, (json.dumps(content, separators=(",", ":")) + "\n").encode())

    def best(self, data_set: str, family: str) -> Recipe:
        """The recipe with the highest mean log-likelihood on held-out training rows."""
        tried = [one for one in self.validation if (one.data_set, one.family) == (data_set, family)]
        if not tried:
            raise SystemExit(f"no recipe has been tried for {data_set} and {family}; run with --choose first")
        return max(tried, key=lambda one: one.mean("log_likelihood")).recipe

    def tested(self, data_set: str, family: str, recipe: Recipe) -> Measurement:
        for one in self.tests:
            if (one.data_set, one.family, one.recipe) == (data_set, family, recipe):
                return one
        raise SystemExit(f"no test figures for {data_set} and {family}; run without --table first")


def _made_with() -> dict[str, Any]:
    return {
        "tribayes": tb.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "dtype": "float32",
    }


Job = tuple[str, str, Recipe]  # data set, family, recipe


def finalists() -> list[Recipe]:
    """The recipes compared: KL weights, batch sizes, and how much the learned noise is widened."""
    base = Recipe(steps=3000, lr=0.03)
    tempered = [
        replace(base, kl_weight=weight, batch_size=size, noise_factor=factor)
        for size in (64, 128)
        for weight in (0.1, 0.15, 0.2, 0.25, 0.3)
        for factor in (1.0, 1.2, 1.4)
    ]
    return [*tempered, base]


def planned_tests(results: Results, sets: Sequence[str]) -> list[Job]:
    """Every family with the recipe that is best for the tridiagonal one, and with its own best."""
    jobs = []
    for data_set in sets:
        for family in FAMILIES:
            recipes = {results.best(data_set, "tridiagonal"): None, results.best(data_set, family): None}
            jobs += [(data_set, family, recipe) for recipe in recipes]
    return jobs


def measure(
    jobs: Sequence[Job], splits: Mapping[str, Sequence[Split]], into: list[Measurement], results: Results
) -> None:
    """Run what is missing in `into`, saving after each job."""
    done = {one.key for one in into}
    missing = [job for job in jobs if (*job, len(splits[job[0]])) not in done]
    with progress_bar("training", sum(recipe.steps for _, _, recipe in missing)) as advance:
        for data_set, family, recipe in missing:
            into.append(measured(data_set, family, recipe, splits[data_set], advance))
            results.save()


def measured(data_set: str, family: str, recipe: Recipe, splits: Sequence[Split], advance: Advance) -> Measurement:
    start = perf_counter()

    def remarked(amount: float = 1, remark: str = "") -> None:
        advance(amount, remark or f"{data_set}, {family}")

    figures = tuple(run(splits, family, recipe, remarked))
    return Measurement(data_set, family, recipe, figures, SEED, round(perf_counter() - start, 1))


def choose(results: Results, splits: Mapping[str, Sequence[Split]], resume: bool) -> None:
    """Compare the finalists on held-out training rows."""
    inner = {name: [split.held_out(SEED + i) for i, split in enumerate(some)] for name, some in splits.items()}
    if not resume:
        results.validation[:] = [one for one in results.validation if one.data_set not in splits]
    jobs = [(name, family, recipe) for name in splits for family in FAMILIES for recipe in finalists()]
    measure(jobs, inner, results.validation, results)


def run_tests(results: Results, splits: Mapping[str, Sequence[Split]], resume: bool) -> None:
    """Train on all training rows with the recipes chosen, and test."""
    if not resume:
        results.tests[:] = [one for one in results.tests if one.data_set not in splits]
    measure(planned_tests(results, list(splits)), splits, results.tests, results)
