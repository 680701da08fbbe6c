"""Mistakes that the suite of faults found to end in another library's words: each is refused by the argument's name."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tribayes.posterior import FactorisedNormal

X, Y = torch.ones(4, 2), torch.tensor([0, 1, 2, 1])
ROWS = torch.arange(48.0).reshape(24, 2)


def model() -> tb.BayesianModule:
    return tb.to_bayesian(nn.Linear(2, 3))


def elbo() -> tb.ELBO:
    return tb.ELBO(tb.Categorical(), data_size=4)


def step() -> tb.TrainingStep:
    net = model()
    return tb.TrainingStep(net, elbo(), torch.optim.SGD(tb.parameter_groups(net, lr=0.01)))


def fitting(batches: Any = ((X, Y),)) -> tuple[Any, ...]:
    net = model()
    return net, elbo(), batches, torch.optim.SGD(tb.parameter_groups(net, lr=0.01))


def fit(**more: Any) -> object:
    return tb.fit(*fitting(), progress=False, **more)


def fit_on(batches: Any) -> object:
    return tb.fit(*fitting(batches), progress=False)


def fitted() -> tb.tables.FittedTable:
    recipe = tb.tables.Recipe(kl_weights=(1.0,), calibrate=False, steps=1, samples=2)
    return tb.tables.fit_table(ROWS, ROWS[:, 0], recipe=recipe)


NO_NETWORK: dict[str, Callable[[Any], object]] = {
    "kl": tb.kl,
    "stabilise_": tb.stabilise_,
    "to_deterministic": tb.to_deterministic,
    "ablate_correlation": tb.ablate_correlation,
    "SamplingNetwork": tb.SamplingNetwork,
    "Ensemble": tb.Ensemble,
    "layer_report": lambda given: tb.layer_report(given, X, 2),
    "parameter_groups": lambda given: tb.parameter_groups(given, 0.1),
    "TrainingStep": lambda given: tb.TrainingStep(given, elbo(), torch.optim.SGD(nn.Linear(2, 3).parameters(), 0.1)),
    "save": lambda given: tb.save(given, "never.safetensors"),
    "model_card": tb.model_card,
    "ELBO": lambda given: elbo()(given, X, Y),
    "runs.evaluate": lambda given: tb.runs.evaluate(given, tb.runs.Examples(X, Y), seed=0),
}


@pytest.mark.parametrize("name", NO_NETWORK)
@pytest.mark.parametrize("given", [None, "model", nn.Linear])
def test_what_is_no_network_is_refused(name: str, given: object) -> None:
    with pytest.raises(TypeError, match=r"^`model` \(=.*\) must be a torch\.nn\.Module; pass the"):
        NO_NETWORK[name](given)


OUTPUTS: dict[str, tb.Likelihood] = {
    "Categorical": tb.Categorical(),
    "Bernoulli": tb.Bernoulli(),
    "MultiLabel": tb.MultiLabel(),
    "Gaussian": tb.Gaussian(),
    "HeteroscedasticGaussian": tb.HeteroscedasticGaussian(),
    "StudentT": tb.StudentT(),
    "Poisson": tb.Poisson(),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_that_are_no_numbers_of_a_network_are_refused(name: str) -> None:
    with pytest.raises(
        TypeError, match=r"^`outputs` \(=\[0, 1\]\) must be a tensor; a network that returns more needs"
    ):
        OUTPUTS[name].response([0, 1])  # type: ignore[arg-type]
    whole = torch.ones(4, 2, dtype=torch.int64)
    with pytest.raises(
        TypeError, match=r"^`outputs` \(=tensor of shape .*int64\) must be floating-point numbers; pass"
    ):
        OUTPUTS[name].response(whole)


def test_yes_and_no_are_no_values() -> None:
    for likelihood in (tb.Gaussian(), tb.StudentT()):
        with pytest.raises(
            TypeError, match=r"^`targets` \(=tensor of .*bool\) must be real numbers; convert them with"
        ):
            likelihood.nll(torch.zeros(2, 1), torch.ones(2, 1, dtype=torch.bool))


LAW = tb.TridiagonalNormal(torch.ones(3), 0.1, 0.2)

MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "a rule by its name": (
        lambda: model().stabilise_("paper"),  # type: ignore[arg-type]
        r"`rule` \(='paper'\) must be a Rule; call tribayes\.stabilise_\(model, rule=",
    ),
    "a pattern that is no text": (
        lambda: tb.to_bayesian(nn.Linear(2, 3), tau={1: 0.1}),  # type: ignore[dict-item]
        r"`tau` \(=1\) must have names or name patterns as keys",
    ),
    "a state by numbers": (
        lambda: model().load_pretrained({1: torch.ones(2)}),  # type: ignore[dict-item]
        r"`state_dict` \(=\{1: .*must be a dict name -> tensor",
    ),
    "more draws than any memory": (
        lambda: model().sample_weights(10**30),
        r"`n` \(=1000+\) must be at most 2,147,483,647",
    ),
    "seeds for kernels on a CPU": (
        lambda: model().sample_weights(generator=torch.zeros(2)),
        r"`generator` \(=tensor .*must be a torch\.Generator, an integer seed or None",
    ),
    "a seed of another kind": (
        lambda: tb.SamplingNetwork(model())(X, seed=5),  # type: ignore[arg-type]
        r"`seed` \(=5\) must be one number in an int64 tensor",
    ),
    "a complex prior": (lambda: tb.Prior(scale=torch.ones(2) * 1j), r"`scale` \(=tensor .*must be real"),
    "a prior of yes and no": (lambda: tb.Prior(loc=torch.tensor([True, False])), r"`loc` \(=tensor .*must be real"),
    "a number beyond a float's range": (
        lambda: tb.to_bayesian(nn.Linear(2, 3), tau=10**400),
        r"`tau` \(=1000+\.\.\.\) must be a number",
    ),
    "a whole number that cannot be written": (
        lambda: tb.predict(model(), X, seed=-(10**5000)),
        r"`seed` \(=int of thousands of digits\) must have at most 10,000 bits",
    ),
    "the same in a list": (
        lambda: tb.predict(model(), X, levels=[10**5000]),
        r"`levels` \(=list of thousands of digits\)|`level` \(=int of thousands of digits\)",
    ),
    "the same for a generator": (
        lambda: model().sample_weights(generator=10**5000),
        r"`generator` \(=int of thousands of digits\) must have at most 10,000 bits",
    ),
    "a spread in words": (
        lambda: tb.TridiagonalNormal(torch.ones(3), "x", 0.2),  # type: ignore[arg-type]
        r"`tau` \(='x'\) must be a number or a tensor",
    ),
    "a spread beyond all numbers": (
        lambda: tb.TridiagonalNormal(torch.ones(3), 0.1, 10**400),
        r"`rho` \(=1000.*\.\.\.\) must be a number or a tensor",
    ),
    "a shape in words": (lambda: LAW.rsample("x"), r"`sample_shape` \(='x'\) must be a sequence of whole numbers"),
    "a shape by a number": (
        lambda: FactorisedNormal(torch.ones(3), torch.ones(3)).rsample(5),
        r"`sample_shape` \(=5\) must be a sequence",
    ),
    "a value of another kind": (
        lambda: LAW.log_prob([1, 2, 3]),  # type: ignore[arg-type]
        r"`value` \(=\[1, 2, 3\]\) must be a tensor of torch\.float32",
    ),
    "weights of classes in a tree": (
        lambda: tb.Categorical(class_weights=[X, X]),  # type: ignore[list-item]
        r"`class_weights` \(=\[.*must be numbers; pass",
    ),
    "batches that are no pairs": (
        lambda: step().accumulate([0, 1]),  # type: ignore[list-item]
        r"`batches` \(=\[0, 1\]\) must be a sequence of pairs; pass a list of \(inputs, targets\)",
    ),
    "a schedule that is none": (lambda: fit(scheduler="x"), r"`scheduler` \(='x'\) must be a schedule of torch\.optim"),
    "callbacks that are none": (lambda: fit(callbacks=5), r"`callbacks` \(=5\) must be Callbacks or functions"),
    "an ensemble of nothing": (
        lambda: tb.Ensemble(model(), 2)("x"),
        r"`inputs` \(='tuple of str'\) must hold tensors; pass tensors with a row per example",
    ),
    "a type in words": (
        lambda: tb.Ensemble(model(), 2, dtype="bf16"),  # type: ignore[arg-type]
        r"`dtype` \(='bf16'\) must be a torch\.dtype",
    ),
    "a page of bytes": (
        lambda: tb.model_card(model(), limitations=b"x"),  # type: ignore[arg-type]
        r"`limitations` \(=b'x'\) must be text",
    ),
    "a family that is no class": (
        lambda: tb.load("x", nn.Linear(2, 3), family=5),  # type: ignore[arg-type]
        r"`path` \(='x'\) must be a file|`family` \(=5\) must be a class",
    ),
    "rows of other columns": (
        lambda: fitted().intervals(torch.ones(4, 3)),
        r"`rows` \(=tensor .*must have the shape \(N, 2\), as the table that was learned",
    ),
    "rows in a list": (
        lambda: fitted().predict([[1, 2]]),  # type: ignore[arg-type]
        r"`rows` \(=\[\[1, 2\]\]\) must be a tensor of real numbers",
    ),
    "a recipe that is none": (
        lambda: tb.tables.fit_table(ROWS, ROWS[:, 0], recipe=5),  # type: ignore[arg-type]
        r"`recipe` \(=5\) must be a Recipe",
    ),
    "a seed that is half of one": (
        lambda: tb.tables.fit_table(ROWS, ROWS[:, 0], seed=0.5),  # type: ignore[arg-type]
        r"`seed` \(=0\.5\) must be a whole number",
    ),
    "a decay that is NaN": (
        lambda: tb.tables.Recipe(weight_decay=float("nan")),
        r"`weight_decay` \(=nan\) must be finite and not negative",
    ),
    "a rate beyond float32": (
        lambda: tb.tables.Recipe(lr=1e38),
        r"`lr` \(=1e\+38\) must be at most 1e\+30; it is a learning rate",
    ),
    "a test that is none": (
        lambda: tb.runs.evaluate(model(), (X, Y), seed=0),  # type: ignore[arg-type]
        r"`test` \(=.*must be Examples",
    ),
    "meanings in a list": (
        lambda: tb.report.Report("x").section("y").definitions(["z"]),  # type: ignore[arg-type]
        r"`meanings` \(=\['z'\]\) must be a dict term -> meaning",
    ),
    "a row that is a number": (
        lambda: tb.report.Report("x").section("y").table(["a"], [5]),  # type: ignore[list-item]
        r"`rows\[0\]` \(=5\) must be a sequence of cells",
    ),
    "an error of more than all": (
        lambda: tb.plots.training_curves(tb.History([1.0], [1.0], [1.0]), final_error=float("inf")),
        r"`final_error` \(=inf\) must be a share in \[0, 1\]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_plain_mistake_is_refused_by_its_name(name: str) -> None:
    call, words = MISTAKES[name]
    with pytest.raises((TypeError, ValueError), match=f"^(?s:{words})"):
        call()


@pytest.mark.parametrize("path", ["", "a\0b", "\ud800"])
def test_what_names_no_file_is_refused(path: str) -> None:
    for call in (lambda: tb.save(model(), path), lambda: tb.report.Report("x").write(path)):
        with pytest.raises(ValueError, match=r"^`path` \(=.*\) must name a file, without a zero byte or half a"):
            call()


def test_a_path_is_text(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"^`path` \(=b'x'\) must be a path; pass e"):
        tb.model_card(model(), b"x")  # type: ignore[arg-type]
    tb.save(model(), tmp_path / "m")
    with pytest.raises(ValueError, match=r"^`device` \(='nowhere'\) must be a device of this machine"):
        tb.load(tmp_path / "m", nn.Linear(2, 3), device="nowhere")


def test_bounds_of_a_report_have_the_shape_of_its_values(tmp_path: Path) -> None:
    pred = tb.predict(tb.to_bayesian(nn.Linear(2, 1)), X, 4, tb.Gaussian(0.1), progress=False)
    sides: tuple[Tensor, Tensor] = (torch.zeros(3), torch.ones(3))
    with pytest.raises(TypeError, match=r"^`bounds` \(=.*must be \(lower, upper\), tensors of the shape \(4, 1\)"):
        tb.report.regression_report(tmp_path / "r.html", pred, torch.zeros(4, 1), bounds=sides)


def test_what_cannot_be_counted_is_refused() -> None:
    pred = tb.predict(model(), X, 2, progress=False)
    words: dict[str, tuple[type[Exception], Callable[[], object], str]] = {
        "calibrate": (ValueError, lambda: tb.calibrate(model(), X, Y[0]), r"^`targets` \(=1\) must be at least 30"),
        "fit": (TypeError, lambda: fit_on(5), r"^`batches` \(=5\) must be a DataLoader or a list of batches"),
        "held out": (TypeError, lambda: fit(validation=5), r"^`validation` \(=5\) must be a DataLoader or a list of"),
        "weights": (
            ValueError,
            lambda: tb.tables.Recipe(kl_weights=(math.nan,)),
            r"^`kl_weight` \(=nan\) must be fin",
        ),
        "clip": (ValueError, lambda: fit(clip=1e300), r"^`clip` \(=1e\+300\) must be at most 1e\+38; leave it out"),
        "epochs": (
            ValueError,
            lambda: fit(epochs=10**30),
            r"^`epochs` .* must be at most 1,000,000,000; end a training",
        ),
        "shared": (ValueError, lambda: tb.distributed.predict(model(), X, 10**30), r"^`samples` .* must name at most"),
        "no network": (TypeError, lambda: tb.distributed.predict(None, X), r"^`model` \(=None\) must be a torch"),
        "half": (ValueError, lambda: tb.model_card(model(), title="\ud800"), r"^`title` .* without half a character"),
        "halves": (ValueError, lambda: tb.model_card(model(), evaluation={"\udfff": 1}), r"^`evaluation` .* half a"),
        "Examples": (ValueError, lambda: tb.runs.Examples(X, Y[0]), r"^`targets` \(=0\) must have one entry per"),
        "bins": (ValueError, lambda: tb.plots.uncertainty_histogram(pred, Y, bins=10**30), r"^`bins` .* be at most"),
    }
    for error, run, expected in words.values():
        with pytest.raises(error, match=expected):
            run()


def test_a_window_beyond_the_history_smooths_over_all_of_it() -> None:
    pytest.importorskip("matplotlib")
    history = tb.fit(*fitting(), epochs=3, progress=False)
    curves = [tb.plots.training_curves(history, smooth=smooth).lines[-1].get_ydata() for smooth in (6, 10**30)]
    assert list(curves[0]) == list(curves[1])


def test_more_batches_per_step_than_there_are_make_one_step() -> None:
    history = fit(accumulate=10**30)
    assert isinstance(history, tb.History)
    assert len(history) == 1
