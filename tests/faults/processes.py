"""Trainings that are killed, starved of disk, moved and confused: they end with the same bits, or say why not."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from tests.faults.tally import Tally
from tests.recipes.small import digits, session, timeless
from tribayes.runs import train_sessions

ITERATIONS = 60
OPERATIONS = ("open", "os.mkdir", "os.rename", "os.remove")


def train(folder: Path) -> None:
    """To the end, from wherever the run stands, with a checkpoint at every pause."""
    train_sessions([session(folder, seconds=0, iterations=ITERATIONS)], progress=False)


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
    digits()  # loaded once, before children are made
    train(folder / "whole")
    return folder / "whole"


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
    """SIGKILL after a random time, several times a run."""
    whole, tally = whole_run(folder), Tally()
    started = time.monotonic()
    train(folder / "timed")
    length = time.monotonic() - started
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
    for kill_at in sorted(rng.sample(range(1, seen + 1), min(count, seen))):
        run, seen = folder / f"at{kill_at}", 0
        tally.note(ended(in_a_child(lambda r=run: train(r))) == -signal.SIGKILL, f"operation {kill_at} was not reached")
        active = False
        tally.note(same(run, whole), f"killed at operation {kill_at}")
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
        code = ended(in_a_child(lambda r=run: starved(r, rng.randrange(largest))))
        tally.note(code == 1, f"exit {code} on a full disk")
        tally.note(same(run, whole), f"after a full disk {number}")
        shutil.rmtree(run)
    return tally


def move_and_copy(count: int, rng: random.Random, folder: Path) -> Tally:
    """A run that stands somewhere in the middle goes on in another folder, as a copy or moved."""
    whole, tally = whole_run(folder), Tally()
    for number in range(count):
        run, place = folder / f"begun{number}", folder / f"elsewhere {number} é"
        kill_after(rng.uniform(0, 1), run)
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
            train_sessions([session(run, seconds=1000, iterations=ITERATIONS)], progress=False)
        final = (run / "final.safetensors").read_bytes()
        tally.note(final == (whole / "final.safetensors").read_bytes(), f"run {number}")
    return tally
