"""Timing in turns: every candidate runs once per round, so that what disturbs the machine disturbs all alike.

On a GPU a candidate is captured as a CUDA graph, so that launches do not hide what is compared, and timed by events.
On a CPU it is timed by the clock. A turn repeats the work until it is long enough to be measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import torch

from tribayes import _graphs
from tribayes._graphs import RecordedCall, Recording, aside

WARM_UP = 3  # runs before a capture or a timing: what is made once is made then
FEWEST_ROUNDS = 5
# Shorter than this, a turn repeats the work. On a CPU, work that goes on and on, as a training does, finds its own
# things in the caches; after another contender's turn it does not. So turns are long there, as far as the time allows.
TURN_SECONDS = {"cuda": 0.005, "cpu": 0.25}
STEP_TURN_SECONDS = {"cuda": 0.05, "cpu": 0.25}  # of steps that a host calls: its way to their first launch is left out


class CaptureFailed(Exception):
    """A candidate that no CUDA graph can hold. Torch's generator and allocator are not to be trusted afterwards."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason


@dataclass(frozen=True)
class Candidate:
    """What is timed, and how it runs: "graph", "eager", or eager for a reason."""

    name: str
    run: Callable[[], object]
    how: str


@dataclass(frozen=True)
class Timing:
    """Median and quartiles, in seconds, and as a ratio to the base of the race, turn by turn."""

    name: str
    how: str
    turns: int
    seconds: tuple[float, float, float]  # lower quartile, median, upper quartile
    ratio: tuple[float, float, float]


@dataclass(frozen=True)
class Absence:
    """A contender that could not take part, and why."""

    name: str
    reason: str


def candidate(
    name: str,
    run: Callable[..., object],
    device: torch.device,
    eager: Mapping[str, str] | None = None,
    arguments: tuple[Any, ...] = (),
) -> Candidate:
    """Warm up and, on a GPU, record; `eager` has the reasons of those who are not to be recorded.

    A recording copies its arguments in at every turn, as a training does with its batches.
    """
    with aside(device):
        for _ in range(WARM_UP):
            run(*arguments)
    if device.type != "cuda":
        return Candidate(name, partial(run, *arguments), "eager")
    torch.cuda.synchronize()
    if eager and name in eager:
        return Candidate(name, partial(run, *arguments), f"not capturable, eager: {eager[name]}")
    try:
        if not arguments:
            return Candidate(name, Recording(run, device).replay, "graph")
        call = RecordedCall(run, arguments, device)
    except _graphs.CaptureFailed as error:
        raise CaptureFailed(name, str(error)) from error
    call(*arguments)
    torch.cuda.synchronize()
    return Candidate(name, partial(call, *arguments), "graph")


def self_recording(
    name: str,
    run: Callable[..., object],
    recorded: Callable[[], bool],
    device: torch.device,
    arguments: tuple[Any, ...],
) -> Candidate:
    """A step that records itself on a GPU, warmed up until it does: `recorded` tells."""
    for _ in range(WARM_UP + 2):
        run(*arguments)
    if device.type != "cuda":
        return Candidate(name, partial(run, *arguments), "eager")
    torch.cuda.synchronize()
    if not recorded():
        raise SystemExit(f"{name} did not record itself; nothing was timed")
    return Candidate(name, partial(run, *arguments), "graph")


def plain_candidate(name: str, run: Callable[[], object]) -> Candidate:
    """Warm up, and run as it is on any device: for work that is long beside its launches."""
    run()
    return Candidate(name, run, "eager")


def race(
    candidates: Sequence[Candidate],
    device: torch.device,
    seconds: float,
    base: str,
    turns: Mapping[str, float] = TURN_SECONDS,
    agree: Callable[[int], int] = int,
) -> list[Timing]:
    """Time the candidates in turns until the time is up; ratios are to the candidate `base`.

    Processes that step together `agree` on a number, how often to step or whether to go on: the largest of theirs.
    """
    stopwatch = _seconds_by_events if device.type == "cuda" else _seconds_by_clock
    turn = min(turns[device.type], seconds / len(candidates) / FEWEST_ROUNDS)
    repeats = {one.name: agree(_repeats(stopwatch(one.run, 1), turn)) for one in candidates}
    times: dict[str, list[float]] = {one.name: [] for one in candidates}
    end = perf_counter() + seconds
    rounds = 0
    while agree(perf_counter() < end or rounds < FEWEST_ROUNDS):
        for one in candidates if rounds % 2 else reversed(candidates):  # nobody always runs after the same neighbour
            times[one.name].append(stopwatch(one.run, repeats[one.name]))
        rounds += 1
    return [_timing(one, times[one.name], times[base]) for one in candidates]


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile."""
    lower, middle, upper = statistics.quantiles(values, n=4, method="inclusive")
    return lower, middle, upper


def by_name(timings: Sequence[Timing]) -> dict[str, Timing]:
    return {one.name: one for one in timings}


def _timing(one: Candidate, times: Sequence[float], base: Sequence[float]) -> Timing:
    ratios = [a / b for a, b in zip(times, base, strict=True)]
    return Timing(one.name, one.how, len(times), quartiles(times), quartiles(ratios))


def _repeats(seconds: float, turn: float) -> int:
    return max(1, round(turn / max(seconds, 1e-9)))


def _seconds_by_clock(run: Callable[[], object], repeats: int) -> float:
    start = perf_counter()
    for _ in range(repeats):
        run()
    return (perf_counter() - start) / repeats


def _seconds_by_events(run: Callable[[], object], repeats: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(repeats):
        run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / repeats
