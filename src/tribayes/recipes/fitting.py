"""`tribayes fit`: from what was asked for to a run that is trained."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tribayes._errors import refusal
from tribayes._files import only_one
from tribayes.nn.module import BayesianModule
from tribayes.recipes.examples import load_examples
from tribayes.recipes.experiments import experiment
from tribayes.recipes.options import check_setting
from tribayes.recipes.recipe_run import RecipeRun
from tribayes.recipes.recipe_trainer import RecipeTrainer
from tribayes.runs.environment import choose_device, compute_repeatably, use_threads
from tribayes.runs.folder import check_free
from tribayes.runs.records import tensorboard_log
from tribayes.runs.session import Session
from tribayes.runs.trainer import Examples

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
class Fit:
    """A run that is not finished, and its images."""

    run: RecipeRun
    train: Examples
    test: Examples

    def begin(self, checkpoint_seconds: float, stack: ExitStack) -> Session:
        """The session, where the run stands. `stack` keeps other processes out until it ends."""
        stack.enter_context(only_one(self.run.folder))
        trainer = RecipeTrainer(self.run.setting, self.train, self.run.seed)
        return Session(self.run, trainer, self.test, checkpoint_seconds)


def new_fit(request: Request) -> Fit:
    """A run that begins. Its folder is made last, when nothing is wrong with the rest."""
    setting = check_setting(experiment(request.name or _DEFAULT_NAME).changed(**request.changes))
    device = choose_device(request.device)
    check_free(request.place)
    compute_repeatably()
    use_threads(request.threads)
    train, test = load_examples(setting, request.data_dir, device)
    if setting.batch > len(train):
        raise refusal("batch", setting.batch, f"be at most the {len(train):,} training images", "choose a smaller one")
    seed = _DEFAULT_SEED if request.seed is None else request.seed
    return Fit(RecipeRun.create(request.place, setting.as_dict(), seed, device), train, test)


def resumed_fit(request: Request) -> Fit | None:
    """A run that was begun, or None where it is finished. What was said again must be as it was said then."""
    run = RecipeRun.open(request.place)
    _check_same(request, run)
    if run.finished:
        return None
    compute_repeatably()
    use_threads(run.threads)
    return Fit(run, *load_examples(run.setting, request.data_dir, choose_device(run.device)))


def _check_same(request: Request, run: RecipeRun) -> None:
    held = run.setting.as_dict()
    said: dict[str, tuple[Any, Any]] = {
        "NAME": (request.name, held["name"]),
        "--seed": (request.seed, run.seed),
        "--threads": (request.threads, run.threads),
        "--device": (None if request.device == "auto" else request.device, run.device),
    }
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
    trainer = session.trainer
    compiled = isinstance(trainer, RecipeTrainer) and trainer.compiled
    found = _resumption_notes(session) if resumed else []
    return [*found, "the network is compiled first, which takes some seconds"] if compiled else found


def _resumption_notes(session: Session) -> list[str]:
    """Where a resumed run goes on, and what on this machine is not as it was."""
    run, iteration = session.run, session.trainer.iteration
    place = f"at iteration {iteration:,}" if iteration else "at the beginning: it had no checkpoint yet"
    changed = run.note_resumption(iteration)
    notes = [f"note: {change}; the result may differ from an uninterrupted run's" for change in changed]
    return [f"{run.folder} goes on {place}", *notes]


def posterior_text(session: Session) -> str:
    """What there is to say in the end."""
    model = session.trainer.model
    done = f"\nDone: {session.run.folder}"
    return f"{done}\n\n{model.posterior()}" if isinstance(model, BayesianModule) else done
