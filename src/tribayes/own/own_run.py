"""A run on one's own data: its folder has all that it needs, so that the data may move or go once it has begun.

Beside the files of every run (`runs/folder.py`):

schema.json             columns (or pixels), target, which rows did what, what was left out
examples.safetensors    all rows as numbers, and which of the three parts each is in
calibration.json        what held-out rows taught: the widths, and the scores of the conformal guarantee
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tribayes import distributed
from tribayes._errors import refusal
from tribayes._files import read_json, store_json
from tribayes._tensor_files import digest, unusable
from tribayes.inference import ELBO
from tribayes.nn.module import BayesianModule
from tribayes.own.own_trainer import OwnTrainer, build_model
from tribayes.own.prepared import Form, Prepared, as_examples
from tribayes.own.setting import MLP, RESNET, OwnSetting
from tribayes.prediction import Conformal, Predictive, RegressionPredictive, calibrate, conformalise, predict
from tribayes.prediction.source import Kept
from tribayes.runs import Examples, Run, Session
from tribayes.runs.evaluation import seed_of_answers
from tribayes.runs.folder import EXAMPLES, SCHEMA, beginning
from tribayes.runs.records import is_of
from tribayes.runs.session import CHECKPOINT_SECONDS

LEVEL = 0.95
SAMPLES = 200

_DAMAGED = "restore it, or start anew in another folder"


@dataclass(frozen=True)
class Widths:
    """What held-out rows taught: calibration.json."""

    conformal: Conformal
    usual: float  # of values: the standard deviation that 95 % of held-out rows stay below; of classes 0
    words: str  # what the calibration changed

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        kind, scores = self.conformal.kind, self.conformal.scores.tolist()
        return {"kind": kind, "scores": scores, "usual": self.usual, "words": self.words}


class OwnRun(Run):
    """A run whose config is an `OwnSetting`."""

    @cached_property
    def setting(self) -> OwnSetting:
        return OwnSetting.from_dict(self.config)

    @cached_property
    def form(self) -> Form:
        """How data become numbers, as schema.json has it; an error where it was changed."""
        path = self._found(SCHEMA)
        stored = read_json(path)
        if not isinstance(stored, dict) or digest({}, stored) != self.setting.schema:
            raise unusable(path, "is not as it was written", _DAMAGED)
        return Form.from_dict(stored)

    @classmethod
    def begin(
        cls, folder: Path, setting: OwnSetting, seed: int, device: torch.device, prepared: Prepared, form: Form
    ) -> OwnRun:
        """Begin a run: its rows are stored first, so that a folder that is a run has them."""
        run = cls(folder, setting.as_dict(), seed, device.type, torch.get_num_threads())
        with beginning(folder):
            store_json(run.path(SCHEMA), form.as_dict())
            run.write(run.path(EXAMPLES), "examples", prepared.tensors(), {})
            run._start(device)
        return run

    @cached_property
    def prepared(self) -> Prepared:
        """All rows, as they were stored."""
        return Prepared.from_tensors(self.read(self._found(EXAMPLES), "examples", _DAMAGED)[0])

    def part(self, name: str, device: torch.device) -> Examples:
        """The rows of "train", "calibration" or "test" as the network takes them."""
        return Examples(*as_examples(self.form, self.prepared, getattr(self.prepared.parts, name), device))

    def session(self, device: torch.device, seconds: float = CHECKPOINT_SECONDS) -> OwnSession:
        """Its training, where it stands."""
        trainer = OwnTrainer(self.setting, self.form, self.part("train", device), self.seed)
        return OwnSession(self, trainer, self.part("calibration", device), seconds)

    def network(self, device: torch.device, named: str | None = None) -> BayesianModule:
        """The trained network, calibrated. One of the user's own has to be `named` again: no file says what is run."""
        given = self.setting.network
        trusted = given in (MLP, RESNET)
        if named != given and not (trusted and named is None):
            remedy = "leave it out" if trusted else f"pass --network {given} if you trust it: its code is run"
            raise refusal("--network", named, f"be {given!r}, with which the run was made", remedy)
        model, likelihood = build_model(self.setting, self.form, self.seed)
        weights, learned, _ = self.trained()
        model.load_state_dict(weights)
        ELBO(likelihood, data_size=1).load_state_dict(learned)
        likelihood.to(device)
        return model.to(device)

    @cached_property
    def widths(self) -> Widths:
        """What held-out rows taught, checked."""
        path = self._found("calibration.json")
        stored = read_json(path)
        kinds = {"kind": str, "scores": list, "usual": float, "words": str}
        fits = isinstance(stored, dict) and stored.keys() == kinds.keys()
        if not fits or not all(is_of(kind, stored[key]) for key, kind in kinds.items()):
            raise unusable(path, "is damaged", _DAMAGED)
        scores = stored["scores"]
        if not all(is_of(float, score) for score in scores) or sorted(scores) != scores or not scores:
            raise unusable(path, "is damaged: its scores are no increasing numbers", _DAMAGED)
        conformal = Conformal(stored["kind"], torch.tensor(scores, dtype=torch.float64))
        return Widths(conformal, float(stored["usual"]), stored["words"])

    def _found(self, name: str) -> Path:
        if not self.path(name).is_file():
            raise refusal("RUN", str(self.folder), f"have its {name}", _DAMAGED)
        return self.path(name)

    def ask(self, model: BayesianModule, inputs: Tensor, samples: int = SAMPLES, progress: bool = False) -> Predictive:
        """What sampled networks say, in the units of the table; the same networks for the same seed.

        Several processes share the networks out: all of them call this, and each gets the whole answer.
        """
        said = distributed.predict(model, inputs, samples, seed=seed_of_answers(self.seed), progress=progress)
        return in_units(said, self.form)


class OwnSession(Session):
    """A session that calibrates the network before it is kept: so a finished run is a calibrated one."""

    run: OwnRun
    trainer: OwnTrainer

    def finish(self) -> None:
        """Calibrate by held-out rows, keep what they taught, and the network. Of several processes the first does."""
        self.checkpoint()
        if self._writes:
            self._calibrate()
        self.trainer.processes.wait()

    def _calibrate(self) -> None:
        assert self.test is not None
        model, held_out, seed = self.trainer.model, self.test, self.run.seed
        told = calibrate(model, held_out.inputs, held_out.targets, seed=seed, progress=sys.stdout.isatty())
        said = predict(model, held_out.inputs, SAMPLES, seed=seed_of_answers(seed), progress=False)
        pred, truth = in_units(said, self.run.form), in_units_of(held_out.targets, self.run.form)
        usual = 0.0
        if isinstance(pred, RegressionPredictive):
            usual = float(pred.std.double().quantile(LEVEL))
        widths = Widths(conformalise(pred, truth), usual, str(told))
        store_json(self.run.path("calibration.json"), widths.as_dict())
        self.run.save_model(model, self.trainer.objective, self.trainer.description())


def in_units(pred: Predictive, form: Form) -> Predictive:
    """A prediction of values in the units of the table, in float64; one of classes as it is."""
    if not isinstance(pred, RegressionPredictive):
        return pred
    mean, std = form.target.mean, form.target.std
    return RegressionPredictive(Kept(pred.samples.double() * std + mean), pred.origin, pred.noise * std)


def in_units_of(targets: Tensor, form: Form) -> Tensor:
    """Targets as the table has them; classes as they are."""
    targets = targets.cpu()
    return targets if form.target.classes else targets.double() * form.target.std + form.target.mean
