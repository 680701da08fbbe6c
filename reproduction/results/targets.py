"""What the reproduction is to reach, and whether it does: every verdict is computed from the result files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reproduction.paper import printed
from reproduction.results.over_seeds import Spread, counted, number, percent
from reproduction.results.quantities import Quantity, count, posterior, score
from reproduction.results.result_files import Results

SEEDS = 3  # a target speaks of the mean over so many
RHO_DISTANCE = 0.06
TAU_FACTOR = 1.6

_ROUNDING = 1e-9  # the mean of shares that are exactly at the limit may come out a bit above it


@dataclass(frozen=True)
class Measured:
    """What was found: a text, whether it reaches the target, and over how many seeds."""

    text: str
    met: bool
    seeds: int


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
    word = "met" if measured.met else "**not met**"
    return word if measured.seeds >= SEEDS else f"{word}, of {measured.seeds} seed{'s'[: measured.seeds != 1]}"


def targets() -> list[Target]:
    """All of them, in the order in which the page shows them."""
    return [
        *_lenet("mnist-lenet100", "LeNet-100", 0.0070, wrong_certain=14, correct_certain=9650),
        *_lenet("mnist-lenet250", "LeNet-250", 0.0061, wrong_certain=8, correct_certain=9570),
        _at_most("CIFAR-10, paper's setting", "cifar10", "error", score("error"), 0.2032),
        *_posterior("CIFAR-10, paper's setting", "cifar10"),
        _at_most("CIFAR-10, ours", "cifar10-ours", "error", score("error"), 0.195, strictly=True),
        _below("CIFAR-10, ours", "cifar10-ours", "cifar10-frequentist", "NLL", score("nll"), number),
        _below("CIFAR-10, ours", "cifar10-ours", "cifar10-frequentist", "ECE", score("ece"), percent),
    ]


def _lenet(name: str, title: str, error: float, wrong_certain: int, correct_certain: int) -> list[Target]:
    return [
        _at_most(title, name, "error", score("error"), error),
        _below(title, name, f"{name}-frequentist", "error", score("error"), percent),
        _counted(title, name, "wrong_certain", wrong_certain, more_is_better=False),
        _counted(title, name, "correct_certain", correct_certain, more_is_better=True),
        *_posterior(title, name),
    ]


def _at_most(title: str, name: str, what: str, figure: Quantity, limit: float, strictly: bool = False) -> Target:
    def measure(results: Results) -> Measured | None:
        found = results.spread(name, figure)
        if found is None:
            return None
        met = found.mean < limit - _ROUNDING if strictly else found.mean <= limit + _ROUNDING
        return Measured(percent(found), met, found.count)

    return Target(title, f"{what} {'below' if strictly else 'at most'} {percent(limit)}", measure)


def _below(title: str, name: str, rival: str, what: str, figure: Quantity, text: Callable[[Spread], str]) -> Target:
    def measure(results: Results) -> Measured | None:
        ours, theirs = (results.spread(each, figure) for each in (name, rival))
        if ours is None or theirs is None:
            return None
        words = f"{text(ours)} against {text(theirs)}"
        return Measured(words, ours.mean < theirs.mean, min(ours.count, theirs.count))

    return Target(title, f"{what} below the frequentist network's", measure)


def _counted(title: str, name: str, kind: str, limit: int, more_is_better: bool) -> Target:
    def measure(results: Results) -> Measured | None:
        found = results.spread(name, count("0.95", kind))
        if found is None:
            return None
        met = found.mean >= limit if more_is_better else found.mean <= limit
        return Measured(counted(found), met, found.count)

    bound = "at least" if more_is_better else "at most"
    return Target(title, f"{kind.replace('_', ' and ')} at 95 %: {bound} {limit:,}", measure)


def _posterior(title: str, name: str) -> list[Target]:
    return [
        Target(title, f"ρ of every weight tensor within {RHO_DISTANCE} of the paper's", lambda r: _rho(r, name)),
        Target(title, "sign of ρ of every weight tensor as in the paper", lambda r: _signs(r, name)),
        Target(title, f"τ of every weight tensor within a factor of {TAU_FACTOR}", lambda r: _tau(r, name)),
    ]


def _rho(results: Results, name: str) -> Measured | None:
    pairs = _pairs(results, name, "rho")
    if pairs is None:
        return None
    layer, ours, theirs = max(pairs, key=lambda pair: abs(pair[1].mean - pair[2]))
    distance = abs(ours.mean - theirs)
    return Measured(f"at most {distance:.3f}, at {layer}", distance <= RHO_DISTANCE, ours.count)


def _signs(results: Results, name: str) -> Measured | None:
    pairs = _pairs(results, name, "rho")
    if pairs is None:
        return None
    other = [layer for layer, ours, theirs in pairs if ours.mean * theirs <= 0]
    text = f"other at {', '.join(other)}" if other else f"all {len(pairs)} as in the paper"
    return Measured(text, not other, pairs[0][1].count)


def _tau(results: Results, name: str) -> Measured | None:
    pairs = _pairs(results, name, "tau")
    if pairs is None:
        return None
    factors = [(max(ours.mean / theirs, theirs / ours.mean), layer) for layer, ours, theirs in pairs]
    factor, layer = max(factors)
    return Measured(f"at most {factor:.2f}, at {layer}", factor <= TAU_FACTOR, pairs[0][1].count)


def _pairs(results: Results, name: str, parameter: str) -> Sequence[tuple[str, Spread, float]] | None:
    """(layer, ours, the paper's) of every weight tensor."""
    pairs = []
    for layer in printed.POSTERIORS[name]:
        ours = results.spread(name, posterior(f"{layer.name}.weight", parameter))
        if ours is None:
            return None
        pairs.append((layer.title, ours, getattr(layer, parameter)))
    return pairs
