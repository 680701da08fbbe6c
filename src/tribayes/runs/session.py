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
from typing import Any, NoReturn

from torch import Tensor

from tribayes._errors import is_number, refusal
from tribayes._files import store
from tribayes._tensor_files import unusable
from tribayes.distributed.processes import Lost
from tribayes.nn.stage import posterior_rows
from tribayes.runs.batches import Examples
from tribayes.runs.folder import RunFolder, check_same
from tribayes.runs.records import Record, add_record, cut_back, describe, display, interval_of, is_due
from tribayes.runs.trainer import Trainer

CHECKPOINT_SECONDS = 60.0

_ELSEWHERE = "start anew in another folder"
_STEPS_ON_CPU = 10  # between two pauses: a tenth of a second, so that display and Ctrl-C react at once


class Stopped(Exception):
    """The training was asked to end, and did; every run has its checkpoint.

    Example:
        >>> stopped = Stopped(signal.SIGTERM)
        >>> str(stopped), stopped.exit_code
        ('stopped by SIGTERM', 143)
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number
        self.exit_code = 128 + number


class Session:
    """Writes records and checkpoints when they are due. Begins where the run's checkpoint was taken, if it has one.

    Call `pause` at every multiple of `interval` iterations, and more often if you like; `finish` after the last.

    Example:
        >>> train = tb.runs.Examples(torch.randn(40, 2), torch.randint(3, (40,)))
        >>> model, elbo = tb.to_bayesian(nn.Linear(2, 3)), tb.ELBO(tb.Categorical(), data_size=40)
        >>> optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.1), momentum=0.9)
        >>> trainer = tb.runs.Trainer(model, elbo, optimizer, train, batch_size=8, iterations=20, seed=0)
        >>> session = Session(tb.runs.Run.at(folder / "mine"), trainer, test=None)
        >>> while trainer.iteration < trainer.iterations:
        ...     trainer.advance(session.interval)
        ...     session.pause()
        >>> session.finish()
        >>> session.run.finished
        True
    """

    def __init__(
        self, run: RunFolder, trainer: Trainer, test: Examples | None, checkpoint_seconds: float = CHECKPOINT_SECONDS
    ) -> None:
        if not is_number(checkpoint_seconds) or not checkpoint_seconds >= 0:
            raise refusal("checkpoint_seconds", checkpoint_seconds, "be a number, not negative", "60 is the default")
        self.run, self.trainer, self.test = run, trainer, test
        self.interval = interval_of(trainer.iterations)  # how many iterations a record covers
        self.listeners: list[Callable[[Record], None]] = []  # told of every record
        self._checkpoint_seconds = checkpoint_seconds
        self._seconds_before = 0.0
        self._writes = trainer.processes.first
        if run.checkpoint.exists():
            tensors, facts = read_checkpoint(run)
            restore(trainer, run.checkpoint, tensors, facts)
            self._seconds_before = facts["seconds"]
        trainer.processes.after_first(lambda: cut_back(run.metrics, trainer.iteration, trainer.iterations))
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
        if self.trainer.device.type == "cpu" and self._writes and len(losses := self._new_losses()):
            return float(losses[:, 0].mean())
        return None if self.newest is None else self.newest.loss

    def pause(self) -> None:
        """Write what is due: the record first, so that a checkpoint never knows of more than the records do.

        Of several processes only the first writes.
        """
        if not self._writes:
            return
        if is_due(self.trainer.iteration, self.trainer.iterations) and len(self._new_losses()):
            record = self._measure()
            add_record(self.run.metrics, record)
            for listener in self.listeners:
                listener(record)
            self.newest = record
        if monotonic() - self._saved_at >= self._checkpoint_seconds:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Write a checkpoint now, unless the newest is of this iteration.

        Of a training that has diverged none is written: the last good one stays.
        """
        if self._writes and (self.trainer.iteration != self._saved or not self.run.checkpoint.exists()):
            self._check_finite(loss=self._new_losses(), **dict(self.trainer.model.named_parameters()))
            write_checkpoint(self.run, self.trainer, self.seconds)
            self._saved = self.trainer.iteration
        self._saved_at = monotonic()

    def finish(self) -> None:
        """Keep the trained network."""
        self.checkpoint()
        if self._writes:
            self.run.save_model(self.trainer.model, self.trainer.objective, self.trainer.description())
        self.trainer.processes.wait()

    def _check_finite(self, **values: Tensor) -> None:
        """Refuse to go on with losses or weights that are not finite."""
        for name, value in values.items():
            if not (finite := value.detach().isfinite()).all():
                self._diverged(name, float(value.detach()[~finite][0]))

    def _diverged(self, what: str, value: float) -> NoReturn:
        place = f"{value} after iteration {self.trainer.iteration:,} of {self.run.folder}"
        remedy = "the training diverged: lower the learning rate, that of the correlations above all"
        raise refusal(what, place, "stay finite", remedy)

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
                self._diverged(name, value)
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

    Example:
        >>> train = tb.runs.Examples(torch.randn(40, 2), torch.randint(3, (40,)))
        >>> model, elbo = tb.to_bayesian(nn.Linear(2, 3)), tb.ELBO(tb.Categorical(), data_size=40)
        >>> optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.1), momentum=0.9)
        >>> trainer = tb.runs.Trainer(model, elbo, optimizer, train, batch_size=8, iterations=20, seed=0)
        >>> session = Session(tb.runs.Run.at(folder / "mine"), trainer, test=None)
        >>> train_sessions([session], progress=False)
        >>> session.newest.iteration
        20
    """
    trainer, run = sessions[0].trainer, sessions[0].run
    every = _STEPS_ON_CPU if trainer.device.type == "cpu" else sessions[0].interval
    stream = sys.stdout if progress and trainer.processes.first else None
    shown = display(title or run.name, trainer.iteration, trainer.iterations, stream)
    with _naming_the_run(run), _noted_signals() as noted, trainer.processes.watched(), shown as show:
        while trainer.iteration < trainer.iterations:
            steps = min(every - trainer.iteration % every, trainer.iterations - trainer.iteration)
            (advance or trainer.advance)(steps)
            for session in sessions:
                session.pause()
            show(trainer.iteration, lambda: describe([s.loss for s in sessions], [s.newest for s in sessions]))
            if signal_number := trainer.processes.largest(noted[0] if noted else 0):  # all stop at one iteration
                for session in sessions:
                    session.checkpoint()
                raise Stopped(signal_number)
        for session in sessions:
            session.finish()


@contextmanager
def _naming_the_run(run: RunFolder) -> Iterator[None]:
    """While this lasts, the loss of a process says where the training can be continued."""
    try:
        yield
    except Lost as lost:
        where = "the same program continues from its last checkpoint, also with another number of processes"
        raise Lost(f"{lost}; the run in {run.folder} is cut short: {where}") from lost


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
