"""What was to be reached, and how the figure is read from a result file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from benchmarks import draw, ensemble, large, large_networks, prediction, training
from benchmarks.learners import DETERMINISTIC, OURS
from benchmarks.networks import TASKS
from benchmarks.peers import PEERS
from benchmarks.performance.markdown import by_name

Figures = Mapping[str, Any]
LARGE = 2**26  # the 67 million weights of the target
KINDS = {"h200": "H200", "cpu": "CPU"}


class Measured(NamedTuple):
    """A figure with its quartiles; three times the same where there is one measurement, or nothing to measure."""

    lower: float
    middle: float
    upper: float

    @classmethod
    def once(cls, value: float) -> Measured:
        return cls(value, value, value)


@dataclass(frozen=True)
class Target:
    """A figure of one benchmark on one kind of machine, and the most it may be."""

    benchmark: str
    kind: str
    words: str
    limit: float
    unit: str
    figure: Callable[[Figures], Measured | None]  # None: not in the file


def draw_both(figures: Figures) -> Measured | None:
    """Microseconds of our draw and its backward pass at the size of the target."""
    for row in figures["sizes"]:
        if row["size"] == LARGE:
            return Measured(*(1e6 * seconds for seconds in by_name(row["timings"])[draw.OURS_BOTH]["seconds"]))
    return None


def step_ratio(network: str) -> Callable[[Figures], Measured | None]:
    def figure(figures: Figures) -> Measured | None:
        row = _network(figures, network)
        return Measured(*by_name(row["timings"])[OURS]["ratio"]) if row else None

    return figure


def against_peers(*networks: str) -> Callable[[Figures], Measured | None]:
    """Our step relative to the fastest peer's, on the network where that is worst; None without any peer."""

    def figure(figures: Figures) -> Measured | None:
        rows = [row for name in networks if (row := _network(figures, name))]
        found = [one for row in rows if (one := _against_fastest(row))]
        return max(found, key=attrgetter("middle"), default=None)

    return figure


def run_seconds(name: str) -> Callable[[Figures], Measured | None]:
    def figure(figures: Figures) -> Measured | None:
        run = by_name(figures["runs"])[name]
        return Measured.once(run["seconds"]) if run["iterations"] == training.WHOLE else None

    return figure


def predict_seconds(figures: Figures) -> Measured | None:
    """Of the fastest way to predict."""
    whole = (figures["draws"], figures["images"]) == (prediction.DRAWS["cuda"], 10_000)
    ways = [Measured(*one["seconds"]) for one in figures["timings"] if one["name"].startswith(prediction.PREDICT)]
    return min(ways, key=attrgetter("middle")) if whole else None


def predict_ratio(figures: Figures) -> Measured | None:
    return Measured(*by_name(figures["timings"])[prediction.PREDICT]["ratio"])


def ensemble_ratio(figures: Figures) -> Measured | None:
    """Of networks that were kept, asked about one image."""
    row = figures[ensemble.LENET]
    asked = (row["networks"], row["images"]) == (ensemble.NETWORKS, 1)
    return Measured(*by_name(row["timings"])[ensemble.KEPT]["ratio"]) if asked else None


def kept_ratio(figures: Figures) -> Measured | None:
    """Parameters and optimizer state, on the network where ours has most of them."""
    rows = [by_name(row["contenders"]) for row in figures["networks"]]
    ratios = [Measured.once(row[OURS]["kept"] / row[DETERMINISTIC]["kept"]) for row in rows]
    return max(ratios, default=None)


def peak_ratio(network: str) -> Callable[[Figures], Measured | None]:
    def figure(figures: Figures) -> Measured | None:
        row = _network(figures, network)
        found = by_name(row["contenders"]) if row else {}
        if not row or not found[OURS]["peak"]:
            return None
        return Measured.once(found[OURS]["peak"] / found[DETERMINISTIC]["peak"])

    return figure


def large_peak_ratio(network: str) -> Callable[[Figures], Measured | None]:
    def figure(figures: Figures) -> Measured | None:
        row = _network(figures, network)
        if not row or not row["peaks"][OURS]:
            return None
        return Measured.once(row["peaks"][OURS] / row["peaks"][DETERMINISTIC])

    return figure


def _network(figures: Figures, name: str) -> Mapping[str, Any] | None:
    return next((row for row in figures["networks"] if row["name"] == name), None)


def _against_fastest(row: Mapping[str, Any]) -> Measured | None:
    """By opposite quartiles, for what two contenders took in the same turn is not stored."""
    seconds = {one["name"]: Measured(*one["seconds"]) for one in row["timings"]}
    peers = [seconds[name] for name in PEERS if name in seconds]
    if not peers:
        return None
    ours, fastest = seconds[OURS], min(peers, key=attrgetter("middle"))
    return Measured(ours.lower / fastest.upper, ours.middle / fastest.middle, ours.upper / fastest.lower)


_X = "× deterministic"
_STEPS = {"resnet-18": 1.05, "resnet-50": 1.03, "lenet-100": 1.25, "cifar10-full": 1.25}
_LARGE = (
    ("training step", large.TARGETS["time"], step_ratio),
    ("peak of a step", large.TARGETS["memory"], large_peak_ratio),
)

TARGETS = (
    Target("draw", "h200", "draw of 67 million weights, forward + backward", 450, "µs", draw_both),
    *(
        Target("step", "h200", f"training step, {TASKS[name].title}", limit, _X, step_ratio(name))
        for name, limit in _STEPS.items()
    ),
    Target("step", "h200", "training step, every network", 1, "× the fastest peer", against_peers(*TASKS)),
    Target("step", "cpu", "training step, LeNet-100", 1.35, _X, step_ratio("lenet-100")),
    Target("step", "cpu", "training step, LeNet-100", 1, "× the fastest peer", against_peers("lenet-100")),
    *(
        Target("large", "h200", f"{words}, {task.title}", limit, _X, figure(task.name))
        for words, limit, figure in _LARGE
        for task in large_networks.TASKS
    ),
    Target("training", "h200", "100,000 iterations of LeNet-100", 35, "s", run_seconds(training.RUNS[1][0])),
    Target("training", "h200", "the same, three seeds side by side", 50, "s", run_seconds(training.RUNS[2][0])),
    Target("prediction", "h200", "200 draws × 10,000 images, the fastest way", 0.25, "s", predict_seconds),
    Target("prediction", "cpu", "draws × 10,000 images", 1.05, _X, predict_ratio),
    Target("ensemble", "cpu", "200 LeNets kept, about one image", 1.5, "× one about 200 images", ensemble_ratio),
    Target("memory", "h200", "parameters + optimizer state", 1.01, _X, kept_ratio),
    Target("memory", "cpu", "parameters + optimizer state", 1.01, _X, kept_ratio),
    Target("memory", "h200", "peak of a step, ResNet-18", 1.1, _X, peak_ratio("resnet-18")),
)
