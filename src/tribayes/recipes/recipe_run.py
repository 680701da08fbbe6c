"""A run of a setting: begun or resumed, trained, judged by its test images and shown on a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from tribayes._errors import refusal
from tribayes._files import only_one
from tribayes._text import printable
from tribayes.data import class_names
from tribayes.distributed.processes import processes
from tribayes.inference import Categorical
from tribayes.inference.memory import remember
from tribayes.nn.module import BayesianModule
from tribayes.recipes.examples import load_examples, load_split, prepare, shown_images
from tribayes.recipes.experiments import experiment
from tribayes.recipes.recipe_trainer import RecipeTrainer, build_model
from tribayes.recipes.setting import Setting
from tribayes.runs import Examples, Run, Session, train_sessions
from tribayes.runs.environment import choose_device, compute_repeatably
from tribayes.runs.evaluation import LEVELS, sampled_answers
from tribayes.runs.folder import check_free
from tribayes.runs.records import tensorboard_log
from tribayes.runs.session import CHECKPOINT_SECONDS


class RecipeRun(Run):
    """A run whose config is a setting."""

    @property
    def setting(self) -> Setting:
        return Setting.from_dict(self.config)

    def comparable(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """With the fields of today's settings."""
        return Setting.from_dict(config).as_dict()

    @contextmanager
    def session(self, train: Examples, test: Examples, seconds: float = CHECKPOINT_SECONDS) -> Iterator[Session]:
        """Its training, where it stands, with so many seconds between two checkpoints; other processes are kept out."""
        with only_one(self.folder) if processes().first else nullcontext():
            yield Session(self, RecipeTrainer(self.setting, train, self.seed), test, seconds)

    def network(self, device: torch.device) -> nn.Module:
        """The trained network, on a device."""
        model = self.load_model(lambda: build_model(self.setting, self.seed), device)
        remember(model, Categorical())  # all recipes are of classes
        return model

    def bayesian_network(self, device: torch.device) -> BayesianModule:
        """The same, if it is one that can be asked how sure it is."""
        if not self.setting.bayesian:
            remedy = "a frequentist network has no intervals; `tribayes evaluate` gives its figures"
            raise refusal("RUN", f"{self.folder}, {self.setting.name}", "be of a Bayesian network", remedy)
        model = self.network(device)
        assert isinstance(model, BayesianModule)
        return model

    def report(self, path: Path, data_dir: Path | None, device: torch.device, samples: int, progress: bool) -> Path:
        """Write the HTML page about it."""
        from tribayes.report import classification_report  # needs matplotlib

        setting, model = self.setting, self.bayesian_network(device)
        split = load_split(setting, data_dir)
        _, test = prepare(setting.data, split, device, setting.validation)
        return classification_report(
            path,
            sampled_answers(model, test, self.seed, samples, progress, keep_samples=True),
            test.targets,
            model=model,
            images=shown_images(setting, split),
            history=self.history(),
            class_names=class_names(setting.data),
            levels=LEVELS,
            title=f"{setting.name}, seed {self.seed}",
        )


class Request(NamedTuple):
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
        return self.folder or Path("runs") / f"{self.name or 'digits'}-seed{self.seed or 0}"


def train_as_asked(request: Request, resume: bool, checkpoint_seconds: float, tensorboard: bool) -> RecipeRun:
    """Train what was asked for, and say on standard output how it goes."""
    say = print if processes().first else _say_nothing
    run, examples = _resumed(request) if resume else _begun(request)
    if examples is None:
        say(f"{printable(run.folder)} is finished already.")
        return run
    with ExitStack() as stack:
        session = stack.enter_context(run.session(*examples, checkpoint_seconds))
        if tensorboard and processes().first:
            log = tensorboard_log(run.path("tensorboard"), session.trainer.iteration)
            session.listeners.append(stack.enter_context(log))
        for note in notes(session, resume) if processes().first else []:
            say(note)
        train_sessions([session])
    say(f"\nDone: {printable(run.folder)}")
    if isinstance(session.trainer.model, BayesianModule):
        say(f"\n{session.trainer.model.posterior()}")
    return run


def _say_nothing(*_: object) -> None:
    """What a process does that is not the first."""


def _begun(request: Request) -> tuple[RecipeRun, tuple[Examples, Examples]]:
    """A run that begins. Its folder is made last, when nothing is wrong with the rest."""
    setting = experiment(request.name or "digits").changed(**request.changes)
    device = choose_device(request.device)
    group = processes()
    group.after_first(lambda: check_free(request.place))
    compute_repeatably(request.threads)
    if not group.alone:
        group.after_first(lambda: load_split(setting, request.data_dir))  # which may have to download it
    train, test = load_examples(setting, request.data_dir, device)
    if setting.batch > len(train):
        raise refusal("batch", setting.batch, f"be at most the {len(train):,} training images", "choose a smaller one")
    group.check_batch(setting.batch, "--set batch")
    group.after_first(lambda: RecipeRun.create(request.place, setting.as_dict(), request.seed or 0, device))
    return RecipeRun.open(request.place), (train, test)


def _resumed(request: Request) -> tuple[RecipeRun, tuple[Examples, Examples] | None]:
    """A run that was begun, without images where it is finished. What was said again must be as it was said then."""
    run = RecipeRun.open(request.place)
    held = run.setting.as_dict()
    said: dict[str, tuple[Any, Any]] = {
        "NAME": (request.name, held["name"]),
        "--seed": (request.seed, run.seed),
        "--threads": (request.threads, run.threads),
        "--device": (None if request.device == "auto" else request.device, run.device),
    }
    said |= {f"--set {key}": (value, held[key]) for key, value in request.changes.items()}
    check_said_again(said, run.folder)
    if run.finished:
        return run, None
    compute_repeatably(run.threads)
    return run, load_examples(run.setting, request.data_dir, choose_device(run.device))


def check_said_again(said: Mapping[str, tuple[Any, Any]], folder: Path) -> None:
    """Refuse an option that is (asked, as it was when the run was begun) and differs; None is not asked."""
    for option, (asked, begun) in said.items():
        if asked not in (None, begun):
            remedy = "leave it out, or start anew without --resume in another folder"
            raise refusal(option, asked, f"be {begun!r}, as {folder} was begun", remedy)


def notes(session: Session, resumed: bool) -> list[str]:
    """What to know before the training begins, or goes on: where, and what on this machine is not as it was."""
    found = []
    if resumed:
        iteration = session.trainer.iteration
        place = f"at iteration {iteration:,}" if iteration else "at the beginning: it had no checkpoint yet"
        found.append(f"{printable(session.run.folder)} goes on {place}")
        changes = session.run.note_resumption(iteration)
        found += [f"note: {change}; the result may differ from an uninterrupted run's" for change in changes]
    if getattr(session.trainer, "compiled", False):
        found.append("the network is compiled first, which takes some seconds")
    return found
