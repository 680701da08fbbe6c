"""`tribayes fit`: from what was asked for to a run under way."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tribayes._errors import refusal
from tribayes._files import only_one
from tribayes.experiments.catalogue import experiment
from tribayes.experiments.display import display_for
from tribayes.experiments.environment import choose_device, compute_repeatably, use_threads
from tribayes.experiments.examples import load_examples
from tribayes.experiments.options import check_setting
from tribayes.experiments.run import Run, check_free
from tribayes.experiments.session import Session
from tribayes.experiments.tensorboard import tensorboard_log
from tribayes.experiments.trainer import Examples, Trainer
from tribayes.experiments.training import train
from tribayes.nn.module import BayesianModule

_DEFAULT_NAME, _DEFAULT_SEED = "digits", 0


@dataclass(frozen=True)
class Request:
    """What was said on the command line; None where nothing was."""

    name: str | None
    folder: Path | None
    seed: int | None
    changes: Mapping[str, Any]
    device: str
    threads: int | None
    data_dir: Path | None

    @property
    def place(self) -> Path:
        """The run's folder, by the experiment and the seed where none is named."""
        seed = _DEFAULT_SEED if self.seed is None else self.seed
        return self.folder or Path("runs") / f"{self.name or _DEFAULT_NAME}-seed{seed}"


@dataclass(frozen=True)
class Job:
    """A run that is not finished, and its images."""

    run: Run
    train: Examples
    test: Examples

    def begin(self, checkpoint_seconds: float, stack: ExitStack) -> Session:
        """The session, where the run stands. `stack` keeps other processes out until it ends."""
        stack.enter_context(only_one(self.run.folder))
        trainer = Trainer(self.run.setting, self.train, self.run.seed)
        return Session(self.run, trainer, self.test, checkpoint_seconds)


def new_job(request: Request) -> Job:
    """A run that begins. Its folder is made last, when nothing is wrong with the rest."""
    setting = check_setting(experiment(request.name or _DEFAULT_NAME).changed(**request.changes))
    device = choose_device(request.device)
    check_free(request.place)
    compute_repeatably()
    use_threads(request.threads)
    train_set, test_set = load_examples(setting, request.data_dir, device)
    seed = _DEFAULT_SEED if request.seed is None else request.seed
    return Job(Run.create(request.place, setting, seed, device), train_set, test_set)


def resumed_job(request: Request) -> Job | None:
    """A run that was begun, or None where it is finished. What was said again must be as it was said then."""
    run = Run.open(request.place)
    _check_same(request, run)
    if run.finished:
        return None
    compute_repeatably()
    use_threads(run.threads)
    return Job(run, *load_examples(run.setting, request.data_dir, choose_device(run.device)))


def _check_same(request: Request, run: Run) -> None:
    said: dict[str, tuple[Any, Any]] = {
        "NAME": (request.name, run.setting.name),
        "--seed": (request.seed, run.seed),
        "--threads": (request.threads, run.threads),
        "--device": (None if request.device == "auto" else request.device, run.device),
    }
    held = run.setting.as_dict()
    said |= {f"--set {key}": (value, held[key]) for key, value in request.changes.items()}
    for option, (asked, begun) in said.items():
        if asked not in (None, begun):
            remedy = "leave it out, or start anew without --resume in another folder"
            raise refusal(option, asked, f"be {begun!r}, as {run.folder} was begun", remedy)


def add_tensorboard(session: Session, stack: ExitStack) -> None:
    """Let TensorBoard know of every record."""
    log = tensorboard_log(session.run.path("tensorboard"), session.trainer.iteration)
    session.listeners.append(stack.enter_context(log))


def notes(session: Session, resumed: bool) -> list[str]:
    """What to know before the training begins or goes on."""
    found = _resumption_notes(session) if resumed else []
    return [*found, "the network is compiled first, which takes some seconds"] if session.trainer.compiled else found


def _resumption_notes(session: Session) -> list[str]:
    """Where a resumed run goes on, and what on this machine is not as it was."""
    run, iteration = session.run, session.trainer.iteration
    place = f"at iteration {iteration:,}" if iteration else "at the beginning: it had no checkpoint yet"
    changed = run.note_resumption(session.trainer.device, iteration)
    notes = [f"note: {change}; the result may differ from an uninterrupted run's" for change in changed]
    return [f"{run.folder} goes on {place}", *notes]


def train_shown(session: Session) -> None:
    """Train with a display on standard output."""
    run = session.run
    with display_for(run.setting.name, session.trainer.iteration, run.setting.iterations) as display:
        train([session], display)


def posterior_text(session: Session) -> str:
    """What there is to say in the end."""
    model = session.trainer.model
    done = f"\nDone: {session.run.folder}"
    return f"{done}\n\n{model.posterior()}" if isinstance(model, BayesianModule) else done
