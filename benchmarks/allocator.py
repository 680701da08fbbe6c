"""What a training step on a CPU gains where glibc keeps the memory that the step before has freed.

    python -m benchmarks.allocator [--threads N] [--quick]

`tribayes fit` tells glibc so. By itself glibc learns from the blocks that are freed: it takes those up to the largest
from its own memory, and gives back what is free at its end beyond twice that size. Both take turns in one training.
The table is printed and kept in benchmarks/results/allocator-cpu.json.
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Callable, Sequence
from dataclasses import asdict

import torch

from benchmarks import machine, store
from benchmarks.racing import Timing, plain_candidate, race
from tribayes._allocator import has_glibc, keep_freed_memory, set_thresholds
from tribayes._text import format_table
from tribayes.recipes.experiments import experiment
from tribayes.recipes.recipe_trainer import RecipeTrainer
from tribayes.runs import Examples, Trainer

USUAL, KEPT = "usual", "kept"
CASES = (  # experiment, size of an image, bytes of the largest activation
    ("mnist-lenet100-frequentist", (1, 28, 28), 4 * 64 * 20 * 24 * 24),
    ("mnist-lenet100", (1, 28, 28), 4 * 64 * 20 * 24 * 24),
    ("cifar10", (3, 32, 32), 4 * 100 * 32 * 32 * 32),
)
SECONDS_A_CASE = 45.0


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--quick", action="store_true", help="short: does it run?")
    arguments = parser.parse_args(words)
    if not has_glibc():
        raise SystemExit("only glibc can be told to keep freed memory, and this is another C library")
    torch.set_num_threads(arguments.threads)
    rows, cases = [], []
    for name, shape, largest in CASES:
        ways = {USUAL: lambda largest=largest: set_thresholds(largest, 2 * largest), KEPT: keep_freed_memory}
        trainer = _trainer(name, shape)
        faults = {way: _faults_of_a_step(trainer, choose) for way, choose in ways.items()}
        timings = _timings(trainer, ways, SECONDS_A_CASE / (120 if arguments.quick else 1))
        rows += [_row(name, timing, faults[timing.name]) for timing in timings]
        cases.append({"experiment": name, "faults": faults, "timings": [asdict(timing) for timing in timings]})
    print(format_table(["experiment", "freed memory", "ms per step", "faults per step", "ratio", "quartiles"], rows))
    if not arguments.quick:
        store.save("allocator", machine.describe(torch.device("cpu")), {"cases": cases}, store.RESULTS, quick=False)


def _trainer(name: str, shape: tuple[int, ...]) -> Trainer:
    source = torch.Generator().manual_seed(0)
    images, labels = torch.rand(2000, *shape, generator=source), torch.randint(10, (2000,), generator=source)
    return RecipeTrainer(experiment(name), Examples(images, labels), seed=0)


def _faults_of_a_step(trainer: Trainer, choose: Callable[[], None], steps: int = 10) -> float:
    choose()
    trainer.advance(3)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    trainer.advance(steps)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / steps


def _timings(trainer: Trainer, ways: dict[str, Callable[[], None]], seconds: float) -> Sequence[Timing]:
    def step_after(choose: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            choose()
            trainer.advance(1)

        return run

    field = [plain_candidate(way, step_after(choose)) for way, choose in ways.items()]
    return race(field, trainer.device, seconds, base=USUAL)


def _row(name: str, timing: Timing, faults: float) -> list[object]:
    lower, middle, upper = timing.ratio
    return [name, timing.name, 1e3 * timing.seconds[1], faults, middle, f"{lower:.2f}-{upper:.2f}"]


if __name__ == "__main__":
    main()
