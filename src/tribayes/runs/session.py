"""Runs under way: a folder, a trainer and test examples each, trained to their end, ready to be stopped at any time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

import torch

from tribayes._errors import refusal
from tribayes.runs.checkpoint import read_checkpoint, restore, write_checkpoint
from tribayes.runs.folder import RunFolder
from tribayes.runs.records import Record, add_record, cut_back, interval_of, is_due
from tribayes.runs.side_by_side import train_side_by_side
from tribayes.runs.signals import Stopped, StopRequest
from tribayes.runs.trainer import Examples, Trainer, posterior_rows

CHECKPOINT_SECONDS = 60.0

_STEPS_ON_CPU = 10  # between two pauses: a tenth of a second, so that display and Ctrl-C react at once


@dataclass(frozen=True)
class Glance:
    """What a display shows of a run; None where nothing has been measured, yet or at all."""

    loss: float | None
    error: float | None = None
    tau: tuple[float, ...] = ()
    rho: tuple[float, ...] = ()
    test_nll: float | None = None


class Session:
    """Writes records and checkpoints when they are due. Begins where the run's checkpoint was taken, if it has one.

    Call `pause` at every multiple of `interval` iterations, and more often if you like; `finish` after the last.
    """

    def __init__(
        self,
        run: RunFolder,
        trainer: Trainer,
        test: Examples | None,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
    ) -> None:
        self.run, self.trainer, self.test = run, trainer, test
        self.listeners: list[Callable[[Record], None]] = []  # told of every record
        self._checkpoint_seconds = checkpoint_seconds
        self._seconds_before = 0.0
        if run.checkpoint.exists():
            checkpoint = read_checkpoint(run)
            restore(trainer, checkpoint)
            self._seconds_before = checkpoint.seconds
        cut_back(run.metrics, trainer.iteration, trainer.iterations)
        records = run.records()
        self._last = records[-1] if records else None
        self._recorded = self._last.iteration if self._last else 0
        self._saved = trainer.iteration  # the iteration of the newest checkpoint
        self._started = self._saved_at = monotonic()

    @property
    def interval(self) -> int:
        """How many iterations a record covers."""
        return interval_of(self.trainer.iterations)

    @property
    def seconds(self) -> float:
        """Time trained so far, before an interruption and since."""
        return self._seconds_before + monotonic() - self._started

    def pause(self) -> None:
        """Write what is due: the record first, so that a checkpoint never knows of more than the records do."""
        if is_due(self.trainer.iteration, self.trainer.iterations) and self.trainer.iteration > self._recorded:
            self._record()
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
        given = self.trainer.description()
        self.run.save_model(self.trainer.model, self.trainer.objective, **({"training": given} if given else {}))

    def glance(self) -> Glance:
        """The newest figures that cost nothing to get: on a GPU those of the last record."""
        last = self._last
        loss = None if last is None else last.loss
        if self.trainer.device.type == "cpu" and self.trainer.iteration > self._recorded:
            loss = float(self._new_losses()[:, 0].mean())
        if last is None:
            return Glance(loss)
        return Glance(loss, last.one_sample_error, tuple(last.tau.values()), tuple(last.rho.values()), last.test_nll)

    def _new_losses(self) -> torch.Tensor:
        """Those since the last record."""
        return self.trainer.window_losses()[-(self.trainer.iteration - self._recorded) :]

    def _record(self) -> None:
        record = self._measure()
        add_record(self.run.metrics, record)
        for listener in self.listeners:
            listener(record)
        self._last, self._recorded = record, record.iteration

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


class Display(Protocol):
    """Shows how far the sessions are; called at every pause, draws when it sees fit."""

    def show(self, sessions: Sequence[Session]) -> None: ...


def train_sessions(sessions: Sequence[Session], display: Display) -> None:
    """Train every session to its last iteration and keep the networks.

    The sessions must have as many iterations each and lie on one device. On SIGINT or SIGTERM all write a checkpoint
    and `Stopped` is raised.
    """
    with StopRequest() as stop:

        def pause() -> None:
            for session in sessions:
                session.pause()
            display.show(sessions)
            if stop.number is not None:
                for session in sessions:
                    session.checkpoint()
                raise Stopped(stop.number)

        _bring_level(sessions)
        trainers = [session.trainer for session in sessions]
        on_cpu = trainers[0].device.type == "cpu"
        train_side_by_side(trainers, pause, _STEPS_ON_CPU if on_cpu else sessions[0].interval)
        for session in sessions:
            session.finish()


def _bring_level(sessions: Sequence[Session]) -> None:
    """Bring all to the same iteration: a kill may have come between the checkpoints of one and the next."""
    furthest = max(session.trainer.iteration for session in sessions)
    for session in sessions:
        trainer = session.trainer
        while trainer.iteration < furthest:
            to_record = session.interval - trainer.iteration % session.interval
            trainer.advance(min(to_record, furthest - trainer.iteration))
            session.pause()
