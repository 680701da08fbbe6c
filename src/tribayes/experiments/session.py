"""A run under way: its folder, its trainer and the images it is tested on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

import torch

from tribayes._errors import refusal
from tribayes.experiments.checkpoint import read_checkpoint, restore, write_checkpoint
from tribayes.experiments.metrics import Record, add_record, cut_back, interval_of, is_due
from tribayes.experiments.run import Run
from tribayes.experiments.trainer import Examples, Trainer, learning_rate
from tribayes.nn.module import BayesianModule

CHECKPOINT_SECONDS = 60.0


@dataclass(frozen=True)
class Glance:
    """What a display shows of a run; None where nothing has been measured yet."""

    loss: float | None
    error: float | None
    tau: tuple[float, ...]
    rho: tuple[float, ...]


class Session:
    """Writes records and checkpoints when they are due. Begins where the run's checkpoint was taken, if it has one.

    Call `pause` at every multiple of `interval` iterations, and more often if you like; `finish` after the last.
    """

    def __init__(
        self,
        run: Run,
        trainer: Trainer,
        test: Examples,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
    ) -> None:
        self.run, self.trainer, self.test = run, trainer, test
        self.listeners: list[Callable[[Record], None]] = []  # told of every record
        self._checkpoint_seconds = checkpoint_seconds
        self._seconds_before = 0.0
        if run.checkpoint.exists():
            checkpoint = read_checkpoint(run.checkpoint, run.setting, run.seed)
            restore(trainer, checkpoint)
            self._seconds_before = checkpoint.seconds
        cut_back(run.metrics, trainer.iteration, run.setting.iterations)
        records = run.records()
        self._last = records[-1] if records else None
        self._recorded = self._last.iteration if self._last else 0
        self._saved = trainer.iteration  # the iteration of the newest checkpoint
        self._started = self._saved_at = monotonic()

    @property
    def interval(self) -> int:
        """Iterations a record covers."""
        return interval_of(self.run.setting.iterations)

    @property
    def seconds(self) -> float:
        """Time trained so far, before an interruption and since."""
        return self._seconds_before + monotonic() - self._started

    def pause(self) -> None:
        """Write what is due: the record first, so that a checkpoint never knows of more than the records do."""
        if is_due(self.trainer.iteration, self.run.setting.iterations) and self.trainer.iteration > self._recorded:
            self._record()
        if monotonic() - self._saved_at >= self._checkpoint_seconds:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Write a checkpoint now, unless the newest is of this iteration."""
        if self.trainer.iteration != self._saved:
            write_checkpoint(self.run.checkpoint, self.trainer, self.seconds)
            self._saved = self.trainer.iteration
        self._saved_at = monotonic()

    def finish(self) -> None:
        """Keep the trained network."""
        self.checkpoint()
        self.run.save_model(self.trainer.model)

    def glance(self) -> Glance:
        """The newest figures that cost nothing to get: on a GPU those of the last record."""
        last = self._last
        loss = None if last is None else last.loss
        if self.trainer.device.type == "cpu" and self.trainer.iteration > self._recorded:
            loss = float(self._new_losses()[:, 0].mean())
        if last is None:
            return Glance(loss, None, (), ())
        return Glance(loss, last.one_sample_error, tuple(last.tau.values()), tuple(last.rho.values()))

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
        if not (math.isfinite(loss) and math.isfinite(nll)):
            place = f"{loss} after iteration {self.trainer.iteration:,} of {self.run.folder}"
            raise refusal("loss", place, "stay finite", "the training diverged: lower learning_rate, or kappa")
        tau, rho = self._posterior()
        return Record(
            iteration=self.trainer.iteration,
            loss=loss,
            loss_std=loss_std,
            nll=nll,
            nll_std=nll_std,
            one_sample_error=self.trainer.one_sample_error(self.test),
            learning_rate=learning_rate(self.run.setting, self.trainer.iteration - 1),
            tau=tau,
            rho=rho,
            seconds=round(self.seconds, 3),
        )

    def _posterior(self) -> tuple[dict[str, float], dict[str, float]]:
        model = self.trainer.model
        if not isinstance(model, BayesianModule):
            return {}, {}
        rows = list(model.posterior())
        return {row.name: row.tau for row in rows}, {row.name: row.rho for row in rows}
