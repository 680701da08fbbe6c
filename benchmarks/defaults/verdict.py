"""Which c, by a criterion stated beforehand: the smallest of the worst excesses.

The excess of a c on a task is its mean negative log likelihood on held-out rows minus that of the task's best c, under
the same prior. The c whose worst excess over the tasks is smallest is taken; the mean excess is shown beside it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.defaults.plan import SHARES, TASKS, Arm
from benchmarks.defaults.results import Record, values

Table = dict[str, dict[float, float]]  # task → c → nats


def mean_nll(records: Sequence[Record], prior: str) -> Table:
    """The tasks on which every c was run with this prior; over the seeds that all of them have."""
    found: Table = {}
    for task in TASKS:
        each = {share: values(records, task, Arm(prior, share=share), "nll") for share in SHARES}
        common = set.intersection(*(set(own) for own in each.values()))
        if common:
            found[task] = {share: statistics.fmean(own[seed] for seed in common) for share, own in each.items()}
    return found


def excess(table: Mapping[str, Mapping[float, float]]) -> Table:
    """By how much each c misses the best one of its task.

    >>> excess({"one": {0.1: 2.0, 1.0: 2.5}})
    {'one': {0.1: 0.0, 1.0: 0.5}}
    """
    return {task: {share: one - min(row.values()) for share, one in row.items()} for task, row in table.items()}


@dataclass(frozen=True)
class Verdict:
    """The c taken, and how far every c was from the best."""

    share: float
    worst: dict[float, float]
    mean: dict[float, float]

    @property
    def by_mean(self) -> float:
        """The c that the mean excess would have taken."""
        return min(self.mean, key=self.mean.__getitem__)


def verdict(table: Mapping[str, Mapping[float, float]], tasks: Iterable[str] | None = None) -> Verdict | None:
    """By the tasks of an excess table, or by some of them; None where there are none.

    >>> verdict({"one": {0.1: 0.0, 1.0: 0.5}, "other": {0.1: 0.2, 1.0: 0.0}}).share
    0.1
    """
    rows = [row for task, row in table.items() if tasks is None or task in set(tasks)]
    if not rows:
        return None
    worst = {share: max(row[share] for row in rows) for share in rows[0]}
    mean = {share: statistics.fmean(row[share] for row in rows) for share in rows[0]}
    return Verdict(min(worst, key=worst.__getitem__), worst, mean)
