"""How the time of a step grows: with the number of weights, and with the number of draws.

    python -m benchmarks.growth [--device cpu|cuda] [--quick]

Weights: four square linear layers, batch 64, from 10⁴ to 10⁸ of them. Draws: LeNet-100, batch 64. Exponents are slopes
of ln time against ln size, by least squares.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from math import log, sqrt
from statistics import linear_regression
from typing import Any

from torch import nn

from benchmarks import command
from benchmarks.checks import check_draw, problem_of
from benchmarks.contenders import EXAMPLES
from benchmarks.isolation import isolated
from benchmarks.learners import DETERMINISTIC, OURS, Deterministic, Learner, Ours
from benchmarks.networks import TASKS, Task
from benchmarks.racing import STEP_TURN_SECONDS, aside, race
from benchmarks.step import prepared
from tribayes._text import format_table

SIZES = (10**4, 10**5, 10**6, 10**7, 10**8)
SAMPLES = (1, 2, 4, 8, 16)
QUICK_SIZES, QUICK_SAMPLES = (10**3, 10**4), (1, 2)
LAYERS = 4
SECONDS = 3.0  # a race


def main(words: Sequence[str] | None = None) -> None:
    arguments = command.parsed(command.parser(__doc__), words)
    device = arguments.device
    check_draw(device)
    sizes, samples = (QUICK_SIZES, QUICK_SAMPLES) if arguments.quick else (SIZES, SAMPLES)
    by_weights = isolated(partial(_at_sizes, arguments, sizes), device)
    by_samples = isolated(partial(_at_samples, arguments, samples), device)
    figures = {"weights": by_weights, "samples": by_samples, "exponents": _exponents(by_weights, by_samples)}
    print(_table(figures))
    command.keep("growth", figures, arguments)


def square_layers(weights: int) -> Task:
    """A network of about so many weights, whatever it is good for."""
    side = round(sqrt(weights / LAYERS))

    def build() -> nn.Module:
        layers = [layer for _ in range(LAYERS) for layer in (nn.ReLU(), nn.Linear(side, side))]
        return nn.Sequential(nn.Flatten(), *layers[1:])

    return Task(f"square-{weights}", f"{LAYERS} layers of {side}²", build, (1, 1, side), 64, side, 60_000)


def _at_sizes(arguments: argparse.Namespace, sizes: Sequence[int], eager: Mapping[str, str]) -> list[dict[str, Any]]:
    command.settle(arguments)
    return [_at_size(arguments, size, eager) for size in sizes]


def _at_size(arguments: argparse.Namespace, size: int, eager: Mapping[str, str]) -> dict[str, Any]:
    task = square_layers(size)
    learners = {DETERMINISTIC: Deterministic(task, arguments.device), OURS: Ours(task, arguments.device)}
    return {"size": learners[OURS].random_weights(), "timings": _raced(learners, task, arguments, eager, DETERMINISTIC)}


def _at_samples(
    arguments: argparse.Namespace, samples: Sequence[int], eager: Mapping[str, str]
) -> list[dict[str, Any]]:
    command.settle(arguments)
    task = TASKS["lenet-100"]
    learners = {str(number): Ours(task, arguments.device, number) for number in samples}
    timings = _raced(learners, task, arguments, eager, base=str(samples[0]))
    return [{"samples": number, "timing": one} for number, one in zip(samples, timings, strict=True)]


def _raced(
    learners: Mapping[str, Learner], task: Task, arguments: argparse.Namespace, eager: Mapping[str, str], base: str
) -> list[dict[str, Any]]:
    device = arguments.device
    for name, learner in learners.items():
        with aside(device):
            problem = problem_of(learner, *task.examples(device, EXAMPLES))
        if problem:
            raise SystemExit(f"{name} on {task.title}: {problem}; nothing was timed")
    batch = task.examples(device)
    field = [prepared(name, one, batch, device, eager) for name, one in learners.items()]
    return [
        asdict(one) for one in race(field, device, SECONDS / (100 if arguments.quick else 1), base, STEP_TURN_SECONDS)
    ]


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """The slope of ln time against ln size."""
    return linear_regression([log(size) for size in sizes], [log(time) for time in times]).slope


def _exponents(by_weights: Sequence[Mapping[str, Any]], by_samples: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Over everything, and over the upper half, where launches no longer count."""
    sizes = [row["size"] for row in by_weights]
    upper = len(sizes) // 2
    found = {}
    for place, name in enumerate((DETERMINISTIC, OURS)):
        times = [row["timings"][place]["seconds"][1] for row in by_weights]
        found[f"weights, {name}"] = exponent(sizes, times)
        if len(sizes) - upper > 1:
            found[f"weights from {sizes[upper]:.0e}, {name}"] = exponent(sizes[upper:], times[upper:])
    numbers = [row["samples"] for row in by_samples]
    found["samples, ours"] = exponent(numbers, [row["timing"]["seconds"][1] for row in by_samples])
    return found


def _table(figures: Mapping[str, Any]) -> str:
    weights = [
        [row["size"], *(1e3 * one["seconds"][1] for one in row["timings"]), row["timings"][1]["ratio"][1]]
        for row in figures["weights"]
    ]
    samples = [
        [row["samples"], 1e3 * row["timing"]["seconds"][1], row["timing"]["ratio"][1]] for row in figures["samples"]
    ]
    parts = [
        format_table(["weights", "deterministic ms", "ours ms", "ratio"], weights),
        format_table(["draws per step", "ours ms", "× one draw"], samples),
        format_table(["time grows with", "exponent"], list(figures["exponents"].items())),
    ]
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
