"""Two arms beside each other: differences paired by seed, with their intervals, as cells of tables."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from benchmarks.defaults.plan import SHARES, TASKS, Arm, Task
from benchmarks.defaults.results import Record, values
from benchmarks.modern.figures import paired_difference
from pages.markdown import markdown_table

NOTHING = "Nothing has been run yet.\n"

_SMALL = 0.1  # differences below it get a decimal more
_SHARES_OF_ALL = ("error", "coverage", "ece")  # shown in percent


def number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def mean_text(found: Mapping[int, float], figure: str) -> str:
    """Mean ± standard error over seeds.

    >>> mean_text({0: 0.02, 1: 0.04}, "error"), mean_text({0: 1.5}, "nll"), mean_text({}, "nll")
    ('3.00 ± 1.00 %', '1.500', '–')
    """
    if not found:
        return "–"
    factor, digits, unit = _form(figure)
    some = [factor * value for value in found.values()]
    mean = number(statistics.fmean(some), digits)
    if len(some) == 1:
        return f"{mean}{unit}"
    return f"{mean} ± {statistics.stdev(some) / math.sqrt(len(some)):.{digits}f}{unit}"


def difference_text(one: Mapping[int, float], other: Mapping[int, float], figure: str = "nll") -> str:
    """one − other over their common seeds, with a 95 % t-interval.

    >>> difference_text({0: 1.0, 1: 1.2}, {0: 1.1, 1: 1.3})
    '−0.100 (−0.100 to −0.100)'
    >>> difference_text({0: 1.0}, {0: 1.01}), difference_text({0: 1.0}, {1: 1.1})
    ('−0.0100, one seed', '–')
    """
    if not one.keys() & other.keys():
        return "–"
    found = paired_difference(one, other)
    factor, digits, unit = _form(figure)
    alone = math.isinf(found.upper)
    if not unit and (abs(found.mean) if alone else max(-found.lower, found.upper)) < _SMALL:
        digits += 1
    mean, lower, upper = (_signed(factor * value, digits) for value in (found.mean, found.lower, found.upper))
    if alone:
        return f"{mean}{unit}, one seed"
    return f"{mean}{unit} ({lower} to {upper}){'' if found.clear else ', within error'}"


def differences(records: Sequence[Record], one: Arm, other: Arm, before: Sequence[str] = ()) -> list[list[str]]:
    """For every task that has both: NLL and the two other figures, one − other."""
    rows = []
    for task in TASKS.values():
        seeds = _common(records, task, one, other)
        if not seeds:
            continue
        cells = [
            difference_text(*(values(records, task.name, arm, figure) for arm in (one, other)), figure)
            for figure in ("nll", task.miss, task.trust)
        ]
        rows.append([*before, task.title, str(len(seeds)), *cells])
    return rows


def difference_table(rows: Sequence[Sequence[str]], before: Sequence[str] = ()) -> str:
    header = [*before, "task", "seeds", "NLL", "error or RMSE", "ECE or 95 % coverage"]
    return markdown_table(header, rows) if rows else NOTHING


def by_share(records: Sequence[Record], one: str, other: str) -> str:
    """The difference in NLL of two priors, for every task and c."""
    rows = []
    for task in TASKS.values():
        pairs = [(Arm(one, share=share), Arm(other, share=share)) for share in SHARES]
        cells = [difference_text(*(values(records, task.name, arm, "nll") for arm in pair)) for pair in pairs]
        if any(cell != "–" for cell in cells):
            rows.append([task.title, *cells])
    return markdown_table(["task, NLL", *(f"c = {share:g}" for share in SHARES)], rows) if rows else NOTHING


def counts(records: Sequence[Record], pairs: Sequence[tuple[Arm, Arm]]) -> str:
    """How often the NLL of the first of two arms is clearly smaller, larger, or neither; single seeds do not count."""
    found = []
    for one, other in pairs:
        for task in TASKS.values():
            if len(_common(records, task, one, other)) > 1:
                both = [values(records, task.name, arm, "nll") for arm in (one, other)]
                found.append(paired_difference(*both))
    better, worse = sum(gap.upper < 0 for gap in found), sum(gap.lower > 0 for gap in found)
    unclear = len(found) - better - worse
    return f"of {len(found)} comparisons of NLL, better in {better}, worse in {worse}, within error in {unclear}"


def _common(records: Sequence[Record], task: Task, one: Arm, other: Arm) -> set[int]:
    first, second = (set(values(records, task.name, arm, "nll")) for arm in (one, other))
    return first & second


def _form(figure: str) -> tuple[float, int, str]:
    """Factor, decimals and unit in which a figure is shown."""
    return (100, 2, " %") if figure.removeprefix("calibrated_") in _SHARES_OF_ALL else (1, 3, "")


def _signed(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:+.{digits}f}".replace("-", "−")  # no −0.00
