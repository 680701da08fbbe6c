"""What the reproduction is to reach, and whether it does: every verdict is computed from the result files.

A verdict respects the error of three seeds: "met" where the whole 95 % t-interval is on the right side of the target,
"missed" where it is on the wrong side, "within error" where the target lies inside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reproduction.paper import printed
from reproduction.results.over_seeds import Spread, interval
from reproduction.results.quantities import Quantity, count, posterior, scaled, score
from reproduction.results.result_files import Results

SEEDS = 3  # a target speaks of the mean over so many
RHO_DISTANCE = 0.06
TAU_FACTOR = 1.6


@dataclass(frozen=True)
class Measured:
    """What was found: a text, and how far it is on the right side of everything that must hold."""

    text: str
    margins: tuple[Spread, ...]


@dataclass(frozen=True)
class Target:
    """One requirement. `measure` gives None where a run it needs is missing."""

    subject: str
    requirement: str
    measure: Callable[[Results], Measured | None]


def verdict(measured: Measured | None) -> str:
    """The last word of a row."""
    if measured is None:
        return "not run"
    signs = {margin.sign for margin in measured.margins}
    seeds = min(margin.count for margin in measured.margins)
    if None in signs:
        return "one seed cannot tell"
    word = "**missed**" if -1 in signs else "within error" if 0 in signs else "met"
    return word if seeds >= SEEDS else f"{word}, of {seeds} seeds"


def targets() -> list[Target]:
    """All of them, in the order in which the page shows them."""
    plain = "the frequentist network's, which was not tuned like it"
    ours = ("CIFAR-10, ours", "cifar10-ours", "cifar10-frequentist", plain)
    return [
        *_lenet("mnist-lenet100", "LeNet-100", 0.0070, wrong_certain=14, correct_certain=9650),
        *_lenet("mnist-lenet250", "LeNet-250", 0.0061, wrong_certain=8, correct_certain=9570),
        _error("CIFAR-10, paper's setting", "cifar10", "at most", 0.2032),
        *_posterior("CIFAR-10, paper's setting", "cifar10"),
        _error("CIFAR-10, ours", "cifar10-ours", "below", 0.195),
        _below(*ours, "NLL", score("nll")),
        _below(*ours, "ECE", score("ece"), percent=True),
    ]


def _lenet(name: str, title: str, error: float, wrong_certain: int, correct_certain: int) -> list[Target]:
    plain = "the frequentist network's"
    return [
        _error(title, name, "at most", error),
        _below(title, name, f"{name}-frequentist", plain, "error", score("error"), percent=True),
        _counted(title, name, "wrong_certain", wrong_certain, more_is_better=False),
        _counted(title, name, "correct_certain", correct_certain, more_is_better=True),
        *_posterior(title, name),
    ]


def _error(title: str, name: str, bound: str, limit: float) -> Target:
    def measure(results: Results) -> Measured | None:
        found = results.spread(name, score("error"))
        return None if found is None else Measured(_percent(found), (found.below(limit),))

    return Target(title, f"error {bound} {100 * limit:.2f} %", measure)


def _below(title: str, name: str, rival: str, whose: str, what: str, figure: Quantity, percent: bool = False) -> Target:
    def measure(results: Results) -> Measured | None:
        found = results.difference(name, rival, figure)
        if found is None:
            return None
        return Measured(f"difference {_percent(found) if percent else interval(found)}", (found.below(0),))

    return Target(title, f"{what} below {whose}", measure)


def _counted(title: str, name: str, kind: str, limit: int, more_is_better: bool) -> Target:
    def measure(results: Results) -> Measured | None:
        found = results.spread(name, count("0.95", kind))
        if found is None:
            return None
        return Measured(interval(found, 1), (found.above(limit) if more_is_better else found.below(limit),))

    bound = "at least" if more_is_better else "at most"
    return Target(title, f"{kind.replace('_', ' and ')} at 95 %: {bound} {limit:,}", measure)


def _percent(value: Spread) -> str:
    return interval(value, 2, 100, " %")


def _posterior(title: str, name: str) -> list[Target]:
    return [
        Target(title, f"ρ of every weight tensor within {RHO_DISTANCE} of the paper's", lambda r: _rho(r, name)),
        Target(title, "sign of ρ of every weight tensor as in the paper", lambda r: _signs(r, name)),
        Target(title, f"τ of every weight tensor within a factor of {TAU_FACTOR}", lambda r: _tau(r, name)),
    ]


def _rho(results: Results, name: str) -> Measured | None:
    found = _pairs(results, name, "rho")
    if found is None:
        return None
    layer, worst = _farthest(found)
    return Measured(f"{interval(worst, 3)} beside it, at {layer}", _within(found, RHO_DISTANCE))


def _signs(results: Results, name: str) -> Measured | None:
    found = _pairs(results, name, "rho")
    if found is None:
        return None
    other = [layer for layer, ours, theirs in found if ours.mean * theirs <= 0]
    text = f"other at {', '.join(other)}" if other else f"all {len(found)} as in the paper"
    return Measured(text, tuple(ours.above(0) if theirs > 0 else ours.below(0) for _, ours, theirs in found))


def _tau(results: Results, name: str) -> Measured | None:
    found = _pairs(results, name, "tau", math.log)  # factors become differences
    if found is None:
        return None
    layer, worst = _farthest(found)
    ratio = f"{math.exp(worst.mean):.2f}"
    if worst.std is not None:
        ratio += " [{:.2f}, {:.2f}]".format(*map(math.exp, worst.bounds))
    return Measured(f"{ratio} of it, at {layer}", _within(found, math.log(TAU_FACTOR)))


_Pairs = Sequence[tuple[str, Spread, float]]  # (layer, ours, the paper's) of every weight tensor


def _pairs(results: Results, name: str, parameter: str, scale: Callable[[float], float] = float) -> _Pairs | None:
    pairs = []
    for layer in printed.POSTERIORS[name]:
        ours = results.spread(name, scaled(posterior(f"{layer.name}.weight", parameter), scale))
        if ours is None:
            return None
        pairs.append((layer.title, ours, scale(getattr(layer, parameter))))
    return pairs


def _within(pairs: _Pairs, limit: float) -> tuple[Spread, ...]:
    """Margins on both sides of the paper's."""
    return tuple(
        margin for _, ours, theirs in pairs for margin in (ours.below(theirs + limit), ours.above(theirs - limit))
    )


def _farthest(pairs: _Pairs) -> tuple[str, Spread]:
    """The layer whose interval goes farthest from the paper's, and its distance."""
    distances = [(layer, ours.above(theirs)) for layer, ours, theirs in pairs]
    return max(distances, key=lambda pair: abs(pair[1].mean) + (pair[1].half_width or 0.0))
