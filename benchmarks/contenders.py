"""The field of a race: the plain network, ours, and each peer that is there and can do it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

from benchmarks import peers
from benchmarks.checks import problem_of
from benchmarks.learners import COMPILED, OWN, Learner
from benchmarks.networks import Task
from benchmarks.racing import Absence, aside

NAMES = (*OWN, *peers.PEERS)
EXAMPLES = 4  # that correctness is checked on


def contenders(
    task: Task, device: torch.device, site: Path, more: Iterable[str] = ()
) -> Iterator[tuple[str, Learner | Absence]]:
    """(name, learner) of all, and of those named, checked; a peer that cannot take part comes with its reason."""
    for name in (*NAMES, *more):
        yield name, contender(name, task, device, site)


def contender(name: str, task: Task, device: torch.device, site: Path) -> Learner | Absence:
    """One of them by name. A wrong deterministic network or a wrong one of ours is an error, not an absence."""
    own = OWN | COMPILED
    try:
        learner = own[name](task, device) if name in own else peers.learner(name, site)(task, device)
        with aside(device):
            problem = problem_of(learner, *task.examples(device, EXAMPLES))
    except peers.NotInstalled as absence:
        return Absence(name, str(absence))
    except Exception as error:
        if name in own:
            raise
        return impossible(name, error)
    if problem and name in own:
        raise SystemExit(f"{name} on {task.name}: {problem}; nothing was timed")
    return Absence(name, f"not possible: {problem}") if problem else learner


def impossible(name: str, error: Exception) -> Absence:
    """The absence of a contender that failed, with the first line of what it said."""
    lines = str(error).splitlines()
    words = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return Absence(name, f"not possible: {words}")
