"""Trainings that are killed, starved of disk, moved and confused: they end with the same bits, or say why not."""

from __future__ import annotations

import errno
import io
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

import tribayes as tb
from tests.faults.tally import Tally
from tests.recipes.small import timeless
from tribayes.runs import Run

ITERATIONS = 60
OPERATIONS = ("open", "os.mkdir", "os.rename", "os.remove")


def train(folder: Path, seconds: float = 0) -> None:
    """To the end, from wherever the run stands, with a checkpoint at every pause; a network of the smallest."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(40, 4, generator=generator), torch.randint(3, (40,), generator=generator)
    torch.manual_seed(0)
    model, likelihood = tb.to_bayesian(nn.Linear(4, 3)), tb.Categorical()
    optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.01), momentum=0.9)
    objective = tb.ELBO(likelihood, data_size=len(x))
    run = Run.at(folder, config={"of": "the fault suite"})
    options = {"iterations": ITERATIONS, "batch_size": 8, "checkpoint_seconds": seconds, "progress": False}
    run.train(model, objective, optimizer, train=(x, y), test=(x, y), **options)


def in_a_child(job: Callable[[], object]) -> int:
    """The number of a process that does the job; it exits with 1 where that raised one of our errors."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            job()
            code = 0
        except (ValueError, OSError):
            code = 1
        finally:
            os._exit(code)
    return child


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def whole_run(folder: Path) -> Path:
    """A run that nothing disturbed."""
    train(folder / "whole")
    return folder / "whole"


def time_of(folder: Path) -> float:
    """Seconds of a run."""
    started = time.monotonic()
    train(folder / "timed")
    return time.monotonic() - started


def same(folder: Path, whole: Path) -> bool:
    """Whether a run can be finished, and ends with the bits and the records of the other."""
    if ended(in_a_child(lambda: train(folder))) != 0:
        return False
    final = (folder / "final.safetensors").read_bytes() == (whole / "final.safetensors").read_bytes()
    return final and timeless(folder / "metrics.jsonl") == timeless(whole / "metrics.jsonl")


def kill_after(seconds: float, run: Path) -> None:
    """Train, or go on training, in a child that is killed after so many seconds."""
    child = in_a_child(lambda: train(run))
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    ended(child)


def kill_at_random(count: int, rng: random.Random, folder: Path) -> Tally:
    """SIGKILL after a random time, several times per run."""
    whole, tally = whole_run(folder), Tally()
    length = time_of(folder)
    for number in range(count):
        run = folder / f"killed{number}"
        for _ in range(rng.randrange(1, 4)):
            kill_after(rng.uniform(0, length), run)
        tally.note(same(run, whole), f"run {number}")
        shutil.rmtree(run, ignore_errors=True)
    return tally


def kill_at_operations(count: int, rng: random.Random, folder: Path) -> Tally:
    """SIGKILL just before each operation on a file, or before `count` of them."""
    whole, tally = whole_run(folder), Tally()
    run, seen = folder / "counted", 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if active and event in OPERATIONS and str(arguments[0]).startswith(str(run)):
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    active, kill_at = True, 0
    sys.addaudithook(hook)
    train(run)
    operations = seen
    places = rng.sample(range(1, operations + 1), operations)
    for number in range(count):
        run, kill_at, seen = folder / f"at{number}", places[number % operations], 0
        reached = ended(in_a_child(lambda r=run: train(r))) == -signal.SIGKILL
        killed = [kill_at]
        if number >= operations:  # all have been met once: now a second one, while the run goes on
            kill_at, seen = rng.randrange(1, operations + 1), 0
            ended(in_a_child(lambda r=run: train(r)))
            killed.append(kill_at)
        active = False
        tally.note(reached and same(run, whole), f"killed at operations {killed}")
        shutil.rmtree(run)
        active = True
    active = False  # an audit hook stays for ever
    return tally


def fill_the_disk(count: int, rng: random.Random, folder: Path) -> Tally:
    """No file may grow beyond a random size: refused in words, and finished once there is room."""
    whole, tally = whole_run(folder), Tally()
    largest = max(path.stat().st_size for path in whole.iterdir())

    def starved(run: Path, limit: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        train(run)

    for number in range(count):
        run = folder / f"full{number}"
        limit = rng.randrange(largest)  # here: each child would draw the same
        code = ended(in_a_child(lambda r=run, most=limit: starved(r, most)))
        tally.note(code == 1, f"exit {code} on a disk that is full at {limit} bytes")
        tally.note(same(run, whole), f"after a disk that was full at {limit} bytes")
        shutil.rmtree(run)
    return tally


def forbid(count: int, rng: random.Random, folder: Path) -> Tally:
    """No new file may be made in a run's folder, or none above it: refused in words, and finished once one may."""
    whole, tally = whole_run(folder), Tally()
    length = time_of(folder)

    def refused(run: Path) -> None:
        for name in ("open", "mkdir", "rename", "replace", "unlink"):
            setattr(os, name, _read_only(getattr(os, name)))
        with patch("io.open", _read_only(io.open)), patch("builtins.open", _read_only(open)):
            train(run)

    for number in range(count):
        run = folder / f"kept{number}"
        if number % 2:
            kill_after(rng.uniform(0, length), run)
        if (run / "final.safetensors").exists():
            shutil.rmtree(run)
        code = ended(in_a_child(lambda r=run: refused(r)))
        tally.note(code == 1 and same(run, whole), f"exit {code} in a folder that is read-only")
        shutil.rmtree(run)
    return tally


def _read_only(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same where it only reads; else what a read-only file system answers, also to root."""

    def answer(path: Any, *arguments: Any, **named: Any) -> Any:
        way = [*arguments, *named.values()][:1] or ["r"]
        reads = way[0] in ("r", "rb") or way[0] == os.O_RDONLY if "open" in function.__name__ else False
        if reads or isinstance(path, int):
            return function(path, *arguments, **named)
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    return answer


def move_and_copy(count: int, rng: random.Random, folder: Path) -> Tally:
    """A run that stands somewhere in the middle goes on in another folder, as a copy or moved."""
    whole, tally = whole_run(folder), Tally()
    length = time_of(folder)
    for number in range(count):
        run, place = folder / f"begun{number}", folder / f"elsewhere {number} é"
        kill_after(rng.uniform(0, length), run)
        run.mkdir(exist_ok=True)
        (shutil.copytree if number % 2 else shutil.move)(run, place)
        tally.note(same(place, whole), f"run {number}")
    return tally


def turn_the_clock(count: int, rng: random.Random, folder: Path) -> Tally:
    """Clocks that jump, forwards and back: other checkpoints, the same bits."""
    whole, tally = whole_run(folder), Tally()
    for number in range(count):
        run = folder / f"clock{number}"
        with (
            patch("tribayes.runs.session.monotonic", lambda: rng.uniform(0, 1e6)),
            patch("time.time", lambda: rng.uniform(-1e9, 1e10)),
        ):
            train(run, seconds=1000)
        final = (run / "final.safetensors").read_bytes()
        tally.note(final == (whole / "final.safetensors").read_bytes(), f"run {number}")
    return tally
