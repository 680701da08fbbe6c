"""How long LeNet-100 trains: 100,000 iterations by `tribayes fit`'s trainer, one seed, and three side by side.

    python -m benchmarks.training [--device cpu|cuda] [--iterations N] [--compiled] [--quick]

Images are made up, of MNIST's size and number. On a CPU, and of the plain network, fewer iterations are run and the
time is scaled. --compiled adds ours by torch.compile; the time of compiling, with an empty cache, is in the whole.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from time import perf_counter

import torch

from benchmarks import command
from benchmarks.racing import quartiles
from reproduction.training.side_by_side import train_side_by_side
from tribayes._text import format_table
from tribayes.recipes.experiments import experiment
from tribayes.recipes.recipe_trainer import RecipeTrainer
from tribayes.recipes.setting import Setting
from tribayes.runs import Examples, Trainer
from tribayes.runs.trainer import WINDOW

WHOLE = 100_000
ON_A_CPU = 5 * WINDOW
FEW = 20 * WINDOW  # of the plain network, for comparison
SEEDS = 3
RUNS = (  # what is run, in words; the experiment; how many seeds
    ("deterministic", "mnist-lenet100-frequentist", 1),
    ("ours", "mnist-lenet100", 1),
    (f"ours, {SEEDS} seeds side by side", "mnist-lenet100", SEEDS),
)
COMPILED = tuple((f"{name}, compiled", which, seeds) for name, which, seeds in RUNS[1:])


@dataclass(frozen=True)
class Duration:
    """A run's time, and what 1,000 iterations of it took (quartiles)."""

    name: str
    seeds: int
    iterations: int
    seconds: float
    window_seconds: tuple[float, float, float]

    @property
    def whole(self) -> float:
        """Seconds for all 100,000 iterations."""
        return self.seconds * WHOLE / self.iterations


def main(words: Sequence[str] | None = None) -> None:
    parser = command.parser(__doc__)
    parser.add_argument("--iterations", type=int, default=None, help=f"default: {WHOLE:,}, or fewer as said above")
    parser.add_argument("--compiled", action="store_true", help="also by torch.compile")
    arguments = command.parsed(parser, words)
    torch.compiler.config.force_disable_caches = arguments.compiled
    examples = _examples(arguments.device, 500 if arguments.quick else 60_000)
    runs = [(*run, False) for run in RUNS] + [(*run, True) for run in COMPILED if arguments.compiled]
    durations = [
        _run(name, _setting(which, arguments).changed(compiled=compiled), examples, seeds)
        for name, which, seeds, compiled in runs
    ]
    header = ["run", "iterations", "seconds", "seconds for 100,000", "seconds for 1,000"]
    rows = [[one.name, one.iterations, one.seconds, one.whole, one.window_seconds[1]] for one in durations]
    print(format_table(header, rows))
    command.keep("training", {"runs": [asdict(one) | {"whole": one.whole} for one in durations]}, arguments)


def _setting(which: str, arguments: argparse.Namespace) -> Setting:
    usual = ON_A_CPU if arguments.device.type == "cpu" else FEW if which.endswith("frequentist") else WHOLE
    iterations = 20 if arguments.quick else arguments.iterations or usual
    return experiment(which).changed(iterations=iterations)


def _run(name: str, setting: Setting, examples: Examples, seeds: int) -> Duration:
    torch.compiler.reset()
    trainers = [RecipeTrainer(setting, examples, seed) for seed in range(seeds)]
    marks = [perf_counter()]
    train_side_by_side(trainers, lambda: marks.append(_now(trainers[0].device)))
    _check(trainers)
    seconds = marks[-1] - marks[0]
    windows = [b - a for a, b in pairwise(marks[2:])]  # what comes before has warm-up and capture in it
    spread = quartiles(windows) if len(windows) > 1 else (seconds * WINDOW / setting.iterations,) * 3
    return Duration(name, seeds, setting.iterations, seconds, spread)


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return perf_counter()


def _check(trainers: Sequence[Trainer]) -> None:
    for trainer in trainers:
        if not torch.isfinite(trainer.window_losses()).all():
            raise SystemExit(f"seed {trainer.seed} lost its way (a loss is not finite); its time means nothing")


def _examples(device: torch.device, count: int) -> Examples:
    source = torch.Generator().manual_seed(0)
    images = torch.rand(count, 1, 28, 28, generator=source).to(device)
    return Examples(images, torch.randint(10, (count,), generator=source).to(device))


if __name__ == "__main__":
    main()
