"""What was to be reached, and how the figure is read from a result file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks import draw, prediction, training
from benchmarks.learners import DETERMINISTIC, OURS
from benchmarks.networks import TASKS
from benchmarks.peers import PEERS
from benchmarks.performance.markdown import by_name

Figures = Mapping[str, Any]
LARGE = 2**26  # the 67 million weights of the target
KINDS = {"h200": "H200", "cpu": "CPU"}


@dataclass(frozen=True)
class Target:
    """A figure of one benchmark on one kind of machine, and the most it may be."""

    benchmark: str
    kind: str
    words: str
    limit: float
    unit: str
    figure: Callable[[Figures], float | None]  # None: not in the file


def draw_both(figures: Figures) -> float | None:
    """Microseconds of our draw and its backward pass at the size of the target."""
    for row in figures["sizes"]:
        if row["size"] == LARGE:
            return 1e6 * by_name(row["timings"])[draw.OURS_BOTH]["seconds"][1]
    return None


def step_ratio(network: str) -> Callable[[Figures], float | None]:
    def figure(figures: Figures) -> float | None:
        row = _network(figures, network)
        return row and by_name(row["timings"])[OURS]["ratio"][1]

    return figure


def against_peers(*networks: str) -> Callable[[Figures], float | None]:
    """Our step relative to the fastest peer's, on the network where that is worst; None without any peer."""

    def figure(figures: Figures) -> float | None:
        rows = [row for name in networks if (row := _network(figures, name))]
        return max((found for row in rows if (found := _against_fastest(row))), default=None)

    return figure


def run_seconds(name: str) -> Callable[[Figures], float | None]:
    def figure(figures: Figures) -> float | None:
        run = by_name(figures["runs"])[name]
        return run["seconds"] if run["iterations"] == training.WHOLE else None

    return figure


def predict_seconds(figures: Figures) -> float | None:
    """Of the fastest way to predict."""
    whole = (figures["draws"], figures["images"]) == (prediction.DRAWS["cuda"], 10_000)
    ways = [one["seconds"][1] for one in figures["timings"] if one["name"].startswith(prediction.PREDICT)]
    return min(ways) if whole else None


def predict_ratio(figures: Figures) -> float | None:
    return by_name(figures["timings"])[prediction.PREDICT]["ratio"][1]


def kept_ratio(figures: Figures) -> float | None:
    """Parameters and optimizer state, on the network where ours has most of them."""
    rows = [by_name(row["contenders"]) for row in figures["networks"]]
    return max((row[OURS]["kept"] / row[DETERMINISTIC]["kept"] for row in rows), default=None)


def peak_ratio(network: str) -> Callable[[Figures], float | None]:
    def figure(figures: Figures) -> float | None:
        row = _network(figures, network)
        found = by_name(row["contenders"]) if row else {}
        return found[OURS]["peak"] / found[DETERMINISTIC]["peak"] if row and found[OURS]["peak"] else None

    return figure


def _network(figures: Figures, name: str) -> Mapping[str, Any] | None:
    return next((row for row in figures["networks"] if row["name"] == name), None)


def _against_fastest(row: Mapping[str, Any]) -> float | None:
    medians = {one["name"]: one["seconds"][1] for one in row["timings"]}
    peers = [medians[name] for name in PEERS if name in medians]
    return medians[OURS] / min(peers) if peers else None


_X = "× deterministic"
_STEPS = {"resnet-18": 1.05, "resnet-50": 1.03, "lenet-100": 1.25, "cifar10-full": 1.25}

TARGETS = (
    Target("draw", "h200", "draw of 67 million weights, forward + backward", 450, "µs", draw_both),
    *(
        Target("step", "h200", f"training step, {TASKS[name].title}", limit, _X, step_ratio(name))
        for name, limit in _STEPS.items()
    ),
    Target("step", "h200", "training step, every network", 1, "× the fastest peer", against_peers(*TASKS)),
    Target("step", "cpu", "training step, LeNet-100", 1.35, _X, step_ratio("lenet-100")),
    Target("step", "cpu", "training step, LeNet-100", 1, "× the fastest peer", against_peers("lenet-100")),
    Target("training", "h200", "100,000 iterations of LeNet-100", 35, "s", run_seconds(training.RUNS[1][0])),
    Target("training", "h200", "the same, three seeds side by side", 50, "s", run_seconds(training.RUNS[2][0])),
    Target("prediction", "h200", "200 draws × 10,000 images, the fastest way", 0.25, "s", predict_seconds),
    Target("prediction", "cpu", "draws × 10,000 images", 1.05, _X, predict_ratio),
    Target("memory", "h200", "parameters + optimizer state", 1.01, _X, kept_ratio),
    Target("memory", "cpu", "parameters + optimizer state", 1.01, _X, kept_ratio),
    Target("memory", "h200", "peak of a step, ResNet-18", 1.1, _X, peak_ratio("resnet-18")),
)
