"""Legal arguments of every public callable, the objects whose methods are tried, and what is left out and why."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import torch
from torch import nn

import tribayes as tb
from tests.faults.arguments import INPUTS, LABELS, SCORES, TABLE, VALUES, WRONG
from tests.faults.surface import Subject
from tribayes.posterior.parametrisation import rule_of

FILE = Path(gettempdir()) / "tribayes-calls.file"  # what is read or written by a call

# names, as patterns, that are not tried
EXCLUDED: Mapping[str, str] = {
    "*.extra_repr": "takes nothing; part of how a module prints",
    "Likelihood*": "abstract: its classes are tried",
    "Noise*": "abstract: its classes are tried",
    "NormalNoise*": "what a likelihood says to a prediction; checked where it is given, in with_noise",
    "*.noise_law": "takes nothing; what a likelihood says to a prediction",
    "*.widen_": "the step of tb.calibrate, which chooses the factor",
    "Callback*": "the caller's own code",
    "Predictive": "made by tb.predict",
    "Predictive.*": "abstract: its classes are tried",
    "*Predictive": "made by tb.predict",
    "*Predictive.of": "the step of tb.predict that makes it",
    "*Predictive.settled": "the step of tb.predict that stops AutoSamples",
    "*Predictive.check_response": "the step of tb.predict that looks at what a likelihood says",
    "AutoSamples.enough": "the step of tb.predict that stops AutoSamples",
    "*ELBO.data_term": "a step of its forward",
    "*ELBO.parts": "a step of its forward",
    "*ELBO.stage": "a step of its forward",
    "MaximumLikelihood.*": "steps of its forward, by the names of ELBO's",
    "*.under": "a step of forward",
    "*.in_full": "a step of forward",
    "BayesianModule.means*": "takes nothing but a flag, and names parameters",
    "*.resolve": "a step of the divergence",
    "Calibration": "a result, made by tb.calibrate",
    "ClassificationSummary": "a result, made by Predictive.summary",
    "ClassificationSummary.of": "the step of Predictive.summary that makes it",
    "RegressionSummary": "a result, made by Predictive.summary",
    "ELBOTerms": "a result, made by ELBO",
    "FitState*": "what tb.fit tells its callbacks",
    "History": "a result, made by tb.fit",
    "LayerReport": "a result, made by tb.layer_report",
    "MonteCarloError": "a result, made by Predictive.monte_carlo_error",
    "NonFiniteLoss": "an error, made by TrainingStep",
    "ValidationRecord": "a result, made by tb.fit",
    "Whole": "a mark around inputs, tried in predict",
    "TrainingStep.descend": "a step of its call",
    "TrainingStep.take": "a step of its call, which a GPU records",
    "ClassPredictive.judged": "a step of its summary",
    "runs.Examples.chosen": "a step of training, by numbers that it draws",
    "Conformal": "a result, made by tb.conformalise",
    "posterior.*": "the extension of laws: checked where a network is converted, which is tried",
    "TridiagonalNormal.expand": "torch's protocol of distributions",
    "metrics.Reliability": "a result, made by metrics.reliability",
    "metrics.RiskCoverage": "a result, made by metrics.risk_coverage",
    "report.Section": "made by Report.section, which is tried",
    "data.Split*": "a result, made by data.load",
    "data.load_digits": "takes nothing",
    "runs.Record": "a result, made by a run",
    "runs.Run": "made by Run.at, which is tried",
    "runs.Run.*": "files of a run: the trials of kills and damage, and tests/runs",
    "runs.Session*": "the trials of kills and damage, and tests/runs",
    "runs.Stopped": "an error, made by a run",
    "runs.Trainer*": "the trials of kills, and tests/runs",
    "runs.train_sessions": "the trials of kills, and tests/runs",
    "runs.comparison": "takes opened runs alone: tests/runs",
    "tables.FittedTable": "a result, made by tables.fit_table",
    "tables.Recipe.network": "tried as tables.multilayer_perceptron",
    "distributed.Lost": "an error, made by a group of processes",
    "distributed.Processes*": "needs several processes: tests/distributed",
    "distributed.joined_by_torchrun": "needs torchrun: tests/distributed",
}


def excluded(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in EXCLUDED)


@cache
def _network() -> tb.BayesianModule:
    torch.manual_seed(0)
    return tb.to_bayesian(nn.Sequential(nn.Linear(2, 3)), tau=0.3)


def network() -> tb.BayesianModule:
    """A model of one's own, which a call may change."""
    return copy.deepcopy(_network())


@cache
def answer() -> tb.ClassPredictive:
    return tb.predict(network(), INPUTS, 6, progress=False)


@cache
def values() -> tb.RegressionPredictive:
    return tb.predict(network(), INPUTS, 6, likelihood=tb.Gaussian(noise=0.3), progress=False)


def labels() -> tb.LabelPredictive:
    return tb.predict(network(), INPUTS, 6, likelihood=tb.MultiLabel(), progress=False)


def elbo() -> tb.ELBO:
    return tb.ELBO(tb.Categorical(), data_size=4)


def training() -> dict[str, Any]:
    """A model with the optimizer of its parameters."""
    model = network()
    groups = tb.parameter_groups(model, lr=1e-3)
    return {"model": model, "elbo": elbo(), "optimizer": torch.optim.SGD(groups)}


def step() -> tb.TrainingStep:
    return tb.TrainingStep(**training(), generator=0)


def _saved() -> Path:
    tb.save(network(), FILE)
    return FILE


@cache
def _recipe() -> tb.tables.Recipe:
    return tb.tables.Recipe(kl_weights=(1.0,), calibrate=False, steps=3, batch_size=8, samples=4)


ROWS, NUMBERS_OF_ROWS = torch.randn(24, 2, generator=torch.Generator().manual_seed(2)), torch.arange(24.0)


@cache
def table(classes: int | None = None) -> tb.tables.FittedTable:
    targets = NUMBERS_OF_ROWS if classes is None else NUMBERS_OF_ROWS.long() % classes
    return tb.tables.fit_table(ROWS, targets, classes=classes, recipe=_recipe())


@cache
def _sklearn(kind: str) -> Any:
    made = getattr(tb.sklearn, kind)(kl_weight=1.0, calibrate=False, steps=3, batch_size=8, samples=4, random_state=0)
    return made.fit(ROWS.numpy(), (NUMBERS_OF_ROWS.long() % 3).numpy())


# by the class of the object whose methods are tried
OBJECTS: Mapping[str, Callable[[], Any]] = {
    "AlphaELBO": lambda: tb.AlphaELBO(tb.Categorical(), data_size=4, samples=2),
    "ELBO": elbo,
    "BayesianModule": network,
    "Bernoulli": tb.Bernoulli,
    "Categorical": tb.Categorical,
    "ClassPredictive": answer,
    "ClassificationSummary": lambda: answer().summary(LABELS),
    "Conformal": lambda: tb.conformalise(answer(), LABELS),
    "Ensemble": lambda: tb.Ensemble(network(), 3),
    "Gaussian": tb.Gaussian,
    "HeteroscedasticGaussian": tb.HeteroscedasticGaussian,
    "History": tb.History,
    "LabelPredictive": labels,
    "LayerReport": lambda: tb.layer_report(network(), INPUTS, 2),
    "MonteCarloError": lambda: answer().monte_carlo_error(),
    "MultiLabel": tb.MultiLabel,
    "Poisson": tb.Poisson,
    "RegressionPredictive": values,
    "RegressionSummary": lambda: values().summary(VALUES),
    "SamplingNetwork": lambda: tb.SamplingNetwork(network()),
    "StudentT": tb.StudentT,
    "TrainingStep": step,
    "TridiagonalNormal": lambda: tb.TridiagonalNormal(torch.ones(3), 0.1, 0.2),
    "report.Report": lambda: tb.report.Report("title"),
    "report.Section": lambda: tb.report.Report("title").section("heading"),
    "runs.Examples": lambda: tb.runs.Examples(INPUTS, LABELS),
    "tables.FittedTable": table,
    "sklearn.TriBayesClassifier": lambda: copy.deepcopy(_sklearn("TriBayesClassifier")),
    "sklearn.TriBayesRegressor": lambda: copy.deepcopy(_sklearn("TriBayesRegressor")),
}

# of one callable, where the name of a parameter does not tell
OF_ONE: Mapping[str, Callable[[], dict[str, Any]]] = {
    "Bernoulli.*": lambda: {"outputs": VALUES[:, 0], "targets": torch.tensor([0.0, 1.0, 1.0, 0.0])},
    "BayesianModule": lambda: {"module": nn.Linear(2, 3)},
    "Ensemble": lambda: {"samples": 3},
    "BayesianModule.apply_weights": lambda: {"more": (INPUTS,)},
    "BayesianModule.forward": lambda: {"more": (INPUTS,)},
    "BayesianModule.stabilise_": lambda: {"rule": rule_of("closed_form")},
    "BayesianModule.load_pretrained": lambda: {"state_dict": nn.Sequential(nn.Linear(2, 3)).state_dict()},
    "ClassificationSummary.from_dict": lambda: {"scores": answer().summary(LABELS).as_dict()},
    "Conformal.intervals": lambda: {"self": tb.conformalise(values(), VALUES), "pred": values()},
    "Gaussian.*": lambda: {"targets": VALUES},
    "HeteroscedasticGaussian.*": lambda: {"outputs": torch.randn(4, 6), "targets": VALUES},
    "LabelPredictive.checked_targets": lambda: {"targets": (VALUES > 0).float()},
    "Poisson.*": lambda: {"targets": VALUES.abs().round()},
    "StudentT.*": lambda: {"targets": VALUES},
    "RegressionPredictive.*": lambda: {"targets": VALUES},
    "SamplingNetwork.*": lambda: {"seed": torch.tensor(3)},
    "TrainingStep": training,
    "TridiagonalNormal": lambda: {"loc": torch.ones(3), "tau": 0.1, "rho": 0.2},
    "TridiagonalNormal.log_prob": lambda: {"value": torch.zeros(3)},
    "distributed.predict": lambda: {"samples": 3, "progress": False},
    "fit": lambda: {**training(), "batches": [(INPUTS, LABELS)], "progress": False},
    "layer_report": lambda: {"samples": 3},
    "load": lambda: {"path": _saved(), "net": nn.Sequential(nn.Linear(2, 3))},
    "nn.Conv*": lambda: {"more": (2, 3, 3)},
    "nn.Embedding": lambda: {"more": (4, 3)},
    "nn.Linear": lambda: {"more": (2, 3)},
    "predict": lambda: {"samples": 3, "progress": False},
    "calibrate": lambda: {"samples": 3, "progress": False},
    "plots.regression_band": lambda: {"x": torch.arange(4.0)},
    "report.regression_report": lambda: {"targets": VALUES[:, :1], "pred": _one_output()},
    "report.Section.table": lambda: {"header": ["a", "b"], "rows": [["1", 2], ["x", None]]},
    "data.load": lambda: {"name": "mnist", "data_dir": FILE.parent / "no-such-folder", "download": False},
    "runs.evaluate": lambda: {"test": tb.runs.Examples(INPUTS, LABELS), "samples": 3, "progress": False},
    "tables.fit_table": lambda: {"inputs": ROWS, "targets": NUMBERS_OF_ROWS, "recipe": _recipe()},
    "tables.FittedTable.sets": lambda: {"self": table(3).conformalised(ROWS, NUMBERS_OF_ROWS.long() % 3)},
    "tables.FittedTable.*": lambda: {"rows": ROWS, "targets": NUMBERS_OF_ROWS},
    "tables.multilayer_perceptron": lambda: {"inputs": 2, "outputs": 3},
    "sklearn.*": lambda: {"X": ROWS.numpy(), "y": (NUMBERS_OF_ROWS.long() % 3).numpy()},
    "runs.Examples": lambda: {"inputs": INPUTS},
}


def _one_output() -> tb.RegressionPredictive:
    one = tb.to_bayesian(nn.Linear(2, 1))
    return tb.predict(one, INPUTS, 4, likelihood=tb.Gaussian(noise=0.3), progress=False)


# by the name of a parameter that has no default
BY_NAME: Mapping[str, Callable[[], Any]] = {
    "model": network, "net": lambda: nn.Linear(2, 3), "module": lambda: nn.Linear(2, 3), "inputs": lambda: INPUTS,
    "targets": lambda: LABELS, "outputs": lambda: VALUES, "likelihood": tb.Categorical, "pred": answer,
    "parts": lambda: [answer()], "probabilities": lambda: TABLE, "score": lambda: SCORES, "positive": lambda: WRONG,
    "uncertainty": lambda: SCORES, "wrong": lambda: WRONG, "inside": lambda: SCORES, "outside": lambda: SCORES,
    "coverage": lambda: 0.5, "weights": lambda: _network().sample_weights(),
    "draw": lambda: _network().sample_weights(),
    "prior": tb.Prior, "rule": lambda: "closed_form", "factor": lambda: 1.1, "level": lambda: 0.9, "noise": lambda: 0.1,
    "batches": lambda: [(INPUTS, LABELS)], "path": lambda: FILE, "lr": lambda: 0.01, "example": lambda: 1,
    "table": lambda: _network().posterior(), "x": lambda: torch.arange(4.0), "images": lambda: torch.zeros(4, 8, 8),
    "history": lambda: tb.History([1.0, 0.5], [0.5, 0.3], [0.5, 0.2]), "title": lambda: "title",
    "heading": lambda: "heading", "meanings": lambda: {"word": "meaning"}, "text": lambda: "text", "alt": lambda: "alt",
    "caption": lambda: "caption", "name": lambda: "mnist", "numbers": lambda: torch.tensor([0, 2]),
    "folder": lambda: FILE.with_suffix(".run"), "test": lambda: (INPUTS, LABELS), "seed": lambda: 0,
    "rows": lambda: ROWS, "figure": lambda: __import__("matplotlib.figure").figure.Figure(), "device": lambda: "cpu",
}  # fmt: skip


def legal(subject: Subject) -> dict[str, Any]:
    """Arguments, and under "self" the object of a method."""
    given: dict[str, Any] = {}
    for pattern, make in OF_ONE.items():
        if fnmatch(subject.name, pattern):
            given = make() | given
    if subject.owner is not None and "self" not in given:
        given["self"] = OBJECTS[subject.name.rpartition(".")[0]]()
    parameters = subject.parameters
    for name, parameter in parameters.items():
        if name not in given and (parameter.default is parameter.empty):
            given[name] = BY_NAME[name]()
    return {name: value for name, value in given.items() if name in parameters or name in ("self", "more")}
