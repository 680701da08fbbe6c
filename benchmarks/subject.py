"""A trained network to measure on: of a finished run, or trained briefly here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from tribayes.data import load
from tribayes.nn.module import BayesianModule
from tribayes.recipes.examples import prepare
from tribayes.recipes.experiments import experiment
from tribayes.recipes.recipe_run import RecipeRun
from tribayes.recipes.recipe_trainer import RecipeTrainer
from tribayes.recipes.setting import Setting
from tribayes.runs.batches import Examples
from tribayes.runs.trainer import WINDOW

NETWORK = "mnist-lenet100"
WITHOUT_DATA = "digits"


@dataclass(frozen=True)
class Subject:
    """A Bayesian network, its data, and what it is in words."""

    model: BayesianModule
    train: Examples
    test: Examples
    words: str


def subject(run: Path | None, iterations: int, device: torch.device, name: str) -> Subject:
    """The network of a finished run's folder or, without one, `name` trained for some iterations.

    Where MNIST is not on disk ($TRIBAYES_DATA names the folder), the small network for the embedded digits takes its
    place, and `words` say so.
    """
    return _of_run(run, device) if run is not None else _briefly_trained(experiment(name), iterations, device)


def _briefly_trained(setting: Setting, iterations: int, device: torch.device) -> Subject:
    try:
        train, test = _examples(setting, device)
    except FileNotFoundError:
        if setting.name == WITHOUT_DATA:
            raise
        other = _briefly_trained(experiment(WITHOUT_DATA), iterations, device)
        return Subject(other.model, other.train, other.test, f"{other.words}, for want of {setting.data}")
    trainer = RecipeTrainer(setting.changed(iterations=iterations), train, seed=0)
    while trainer.iteration < iterations:
        trainer.advance(min(WINDOW, iterations - trainer.iteration))
    assert isinstance(trainer.model, BayesianModule)
    return Subject(trainer.model, train, test, f"{setting.name}, {iterations:,} iterations")


def _of_run(folder: Path, device: torch.device) -> Subject:
    run = RecipeRun.open(folder)
    model = run.network(device)
    if not isinstance(model, BayesianModule):
        raise SystemExit(f"{folder} holds a frequentist network: nothing to measure")
    train, test = _examples(run.setting, device)
    return Subject(model, train, test, f"{run.setting.name}, run of {run.setting.iterations:,} iterations")


def _examples(setting: Setting, device: torch.device) -> tuple[Examples, Examples]:
    split = load(setting.data, download=False, progress=False)
    return prepare(setting.data, split, device, setting.validation)
