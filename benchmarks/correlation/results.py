"""Figures of the stored networks by task, law and c: seed → number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from benchmarks.correlation.plan import DIAGONAL, SEEDS, SHARES, Arm, Job, Task
from benchmarks.correlation.shifts import KINDS
from benchmarks.modern.figures import Difference, paired_difference

Networks = Mapping[str, Mapping[str, Any]]  # name of a job → what was found
BySeed = dict[int, float]


@dataclass(frozen=True)
class Figure:
    """One number of a network. `sign` is 1 where larger is better."""

    title: str
    of: Callable[[Mapping[str, Any]], float]
    sign: int = -1
    factor: float = 1.0
    digits: int = 4


def under(kind: str) -> Callable[[Mapping[str, Any]], float]:
    """The mean NLL over the strengths of a kind of shift."""
    return lambda found: fmean(one["nll"] for one in found[kind].values())


CLEAN = Figure("NLL", lambda found: found["clean"]["nll"])
ERROR = Figure("error, %", lambda found: found["clean"]["error"], factor=100, digits=2)
SHIFTS = tuple(Figure(f"NLL, {kind}", under(kind), digits=3) for kind in KINDS)
SHIFTED = Figure("NLL, shifted", lambda found: fmean(under(kind)(found) for kind in KINDS), digits=3)
FOREIGN = Figure(
    "AUROC, foreign", lambda found: fmean(one["entropy"] for one in found["foreign"].values()), sign=1, digits=4
)


def by_seed(networks: Networks, task: Task, arm: Arm, share: float, figure: Figure) -> BySeed:
    """What is stored of a figure, in the units in which it is shown."""
    found = {seed: networks.get(Job(task, arm, share, seed).name) for seed in range(SEEDS)}
    return {seed: figure.factor * figure.of(one) for seed, one in found.items() if one is not None}


def whole(networks: Networks, task: Task, arm: Arm, share: float) -> bool:
    """Whether all seeds were run."""
    return len(by_seed(networks, task, arm, share, CLEAN)) == SEEDS


def best_share(networks: Networks, task: Task, arm: Arm) -> float | None:
    """The c with the smallest mean NLL of clean images; None before all were run."""
    if not all(whole(networks, task, arm, share) for share in SHARES):
        return None
    return min(SHARES, key=lambda share: fmean(by_seed(networks, task, arm, share, CLEAN).values()))


def gap(
    networks: Networks, task: Task, pair: tuple[Arm, Arm], shares: tuple[float, float], figure: Figure
) -> Difference:
    """The first law minus the second, each at its own c, paired by seed."""
    one, other = (by_seed(networks, task, arm, share, figure) for arm, share in zip(pair, shares, strict=True))
    return paired_difference(one, other)


def pays(networks: Networks, task: Task, arm: Arm) -> bool | None:
    """The rule of the page, on one task: better than the diagonal law somewhere else, and not worse on clean images."""
    shares = best_share(networks, task, arm), best_share(networks, task, DIAGONAL)
    if shares[0] is None or shares[1] is None:
        return None
    return _pays(networks, task, arm, (shares[0], shares[1]))


def pays_at(networks: Networks, task: Task, arm: Arm, share: float) -> bool:
    """The same with both laws at one c, which the rule should have asked for."""
    return _pays(networks, task, arm, (share, share))


def _pays(networks: Networks, task: Task, arm: Arm, shares: tuple[float, float]) -> bool:
    gaps = {one: gap(networks, task, (arm, DIAGONAL), shares, one) for one in (CLEAN, SHIFTED, FOREIGN)}
    return not worse(gaps[CLEAN], CLEAN) and (better(gaps[SHIFTED], SHIFTED) or better(gaps[FOREIGN], FOREIGN))


def better(difference: Difference, figure: Figure) -> bool:
    return difference.clear and difference.mean * figure.sign > 0


def worse(difference: Difference, figure: Figure) -> bool:
    return difference.clear and difference.mean * figure.sign < 0
