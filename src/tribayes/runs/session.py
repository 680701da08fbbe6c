"""Runs under way: a folder, a trainer and test examples each, trained to their end, ready to be stopped at any time.

A checkpoint is everything a training needs to go on as if nothing had happened. The newest lies in the run's folder,
the one before beside it. Both are written in one step, so there is always a good one.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from torch import Tensor

from tribayes._errors import refusal
from tribayes._files import store
from tribayes.runs.batches import Examples
from tribayes.runs.folder import RunFolder, check_same, unusable
from tribayes.runs.records import Record, add_record, cut_back, describe, display, interval_of, is_due
from tribayes.runs.trainer import Trainer, posterior_rows

CHECKPOINT_SECONDS = 60.0

_ELSEWHERE = "start anew in another folder"
_STEPS_ON_CPU = 10  # between two pauses: a tenth of a second, so that display and Ctrl-C react at once


class Stopped(Exception):
    """The training was asked to end, and did; every run has its checkpoint."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number
        self.exit_code = 128 + number


class Session:
    """Writes records and checkpoints when they are due. Begins where the run's checkpoint was taken, if it has one.

    Call `pause` at every multiple of `interval` iterations, and more often if you like; `finish` after the last.
    """

    def __init__(
        self, run: RunFolder, trainer: Trainer, test: Examples | None, checkpoint_seconds: float = CHECKPOINT_SECONDS
    ) -> None:
        self.run, self.trainer, self.test = run, trainer, test
        self.interval = interval_of(trainer.iterations)  # how many iterations a record covers
        self.listeners: list[Callable[[Record], None]] = []  # told of every record
        self._checkpoint_seconds = checkpoint_seconds
        self._seconds_before = 0.0
        if run.checkpoint.exists():
            tensors, facts = read_checkpoint(run)
            restore(trainer, run.checkpoint, tensors, facts)
            self._seconds_before = facts["seconds"]
        cut_back(run.metrics, trainer.iteration, trainer.iterations)
        self.newest = next(reversed(run.records()), None)  # the newest record
        self._saved = trainer.iteration  # the iteration of the newest checkpoint
        self._started = self._saved_at = monotonic()

    @property
    def seconds(self) -> float:
        """Time trained so far, before an interruption and since."""
        return self._seconds_before + monotonic() - self._started

    @property
    def loss(self) -> float | None:
        """The newest that costs nothing to get: on a GPU that of the last record; None where there is none yet."""
        if self.trainer.device.type == "cpu" and len(losses := self._new_losses()):
            return float(losses[:, 0].mean())
        return None if self.newest is None else self.newest.loss

    def pause(self) -> None:
        """Write what is due: the record first, so that a checkpoint never knows of more than the records do."""
        if is_due(self.trainer.iteration, self.trainer.iterations) and len(self._new_losses()):
            record = self._measure()
            add_record(self.run.metrics, record)
            for listener in self.listeners:
                listener(record)
            self.newest = record
        if monotonic() - self._saved_at >= self._checkpoint_seconds:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Write a checkpoint now, unless the newest is of this iteration."""
        if self.trainer.iteration != self._saved or not self.run.checkpoint.exists():
            write_checkpoint(self.run, self.trainer, self.seconds)
            self._saved = self.trainer.iteration
        self._saved_at = monotonic()

    def finish(self) -> None:
        """Keep the trained network."""
        self.checkpoint()
        self.run.save_model(self.trainer.model, self.trainer.objective, self.trainer.description())

    def _new_losses(self) -> Tensor:
        """Loss and NLL of the steps since the last record, (steps, 2)."""
        steps = self.trainer.iteration - (self.newest.iteration if self.newest else 0)
        losses = self.trainer.window_losses()
        return losses[len(losses) - steps :]

    def _measure(self) -> Record:
        losses = self._new_losses().double()
        (loss, nll), (loss_std, nll_std) = losses.mean(0).tolist(), losses.std(0, correction=0).tolist()
        error, test_nll = (None, None) if self.test is None else self.trainer.one_sample_scores(self.test)
        for name, value in (("loss", loss), ("loss", nll), ("test NLL", test_nll)):
            if value is not None and not math.isfinite(value):
                place = f"{value} after iteration {self.trainer.iteration:,} of {self.run.folder}"
                remedy = "the training diverged: lower the learning rate, of the correlations (kappa) above all"
                raise refusal(name, place, "stay finite", remedy)
        rows = posterior_rows(self.trainer.model)
        return Record(
            iteration=self.trainer.iteration,
            loss=loss,
            loss_std=loss_std,
            nll=nll,
            nll_std=nll_std,
            one_sample_error=error,
            learning_rate=self.trainer.learning_rate(self.trainer.iteration - 1),
            tau={name: row.tau for name, row in rows.items()},
            rho={name: row.rho for name, row in rows.items()},
            seconds=round(self.seconds, 3),
            test_nll=test_nll,
        )


def train_sessions(
    sessions: Sequence[Session], advance: Callable[[int], None] | None = None, title: str = "", progress: bool = True
) -> None:
    """Train sessions that stand at one iteration, of as many, to their last, and keep the networks.

    `advance` trains all of them so many steps; for a single one its trainer does. `title` is what the display on
    standard output calls them, by default the first run's name. On SIGINT or SIGTERM all write a checkpoint and
    `Stopped` is raised.
    """
    trainer, run = sessions[0].trainer, sessions[0].run
    every = _STEPS_ON_CPU if trainer.device.type == "cpu" else sessions[0].interval
    shown = display(title or run.name, trainer.iteration, trainer.iterations, sys.stdout if progress else None)
    with shown as show, _noted_signals() as noted:
        while trainer.iteration < trainer.iterations:
            steps = min(every - trainer.iteration % every, trainer.iterations - trainer.iteration)
            (advance or trainer.advance)(steps)
            for session in sessions:
                session.pause()
            show(trainer.iteration, lambda: describe([s.loss for s in sessions], [s.newest for s in sessions]))
            if noted:
                for session in sessions:
                    session.checkpoint()
                raise Stopped(noted[0])
        for session in sessions:
            session.finish()


@contextmanager
def _noted_signals() -> Iterator[list[int]]:
    """While this lasts, the first SIGINT or SIGTERM is only noted, in the list; a second one acts as usual.

    A signal that was ignored before, as Ctrl-C is in a background job, stays ignored. Python lets only its main thread
    handle signals: in another one nothing is changed.
    """
    noted: list[int] = []
    before: dict[int, Any] = {}

    def restore_handlers() -> None:
        while before:
            signal.signal(*before.popitem())

    def note(number: int, _: object) -> None:
        noted.append(number)
        restore_handlers()

    try:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    before[number] = signal.signal(number, note)
        yield noted
    finally:
        restore_handlers()


def previous_of(path: Path) -> Path:
    """Where the checkpoint before the newest lies."""
    return path.with_name(f"previous-{path.name}")


def write_checkpoint(run: RunFolder, trainer: Trainer, seconds: float) -> None:
    """Write the trainer's state; what was there is kept as the previous checkpoint."""
    state, given, path = trainer.state(), trainer.description(), run.checkpoint
    if path.exists():
        store(previous_of(path), path.read_bytes())
    run.write(path, "checkpoint", state, given, iteration=trainer.iteration, seconds=seconds)


def read_checkpoint(run: RunFolder, path: Path | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The trainer's state and the facts kept with it; an error where the file is torn, or of another run."""
    path = path or run.checkpoint
    previous = previous_of(path)
    rename = f"to continue from the checkpoint before it, rename {previous} to {path.name}"
    return run.read(path, "checkpoint", rename if previous.exists() else _ELSEWHERE)


def restore(trainer: Trainer, path: Path, tensors: dict[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Put the trainer where the checkpoint at `path` was taken."""
    check_same(facts.get("training", {}), trainer.description(), path.parent)
    held, wanted = (
        # of all but an optimizer's own tensors, which many make only in their first step
        {name: (each.shape, each.dtype) for name, each in state.items() if not name.startswith("optimizer.")}
        for state in (tensors, trainer.state())
    )
    differing = sorted(name for name in held | wanted if held.get(name) != wanted.get(name))
    if differing:
        cause = "it was taken on another kind of device" if differing == ["generator"] else "it is of another version"
        problem = f"does not fit this training in {differing[0]!r}: {cause}"
        raise unusable(path, problem, f"continue it as it was begun, or {_ELSEWHERE}")
    trainer.load_state(tensors)
