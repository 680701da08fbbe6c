"""The likelihood decides what is predicted: the given one, else the remembered one, else classes."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

import tribayes as tb
from tests.prediction.models import classifier, inputs, predict, refused, regressor
from tribayes.inference.memory import remember
from tribayes.inference.noise import OwnScaleNoise
from tribayes.prediction.answers import predictive_from


class Undeclared(tb.Likelihood):
    """A likelihood that can be trained with, and does not say what it predicts."""

    def nll(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).abs().flatten(1).sum(1)

    def response(self, outputs: Tensor) -> Tensor:
        return outputs


class Silent(Undeclared):
    """It says values, and not how observations scatter about them."""

    predicts = "values"


class Count(tb.Predictive):
    """A prediction of one's own."""

    def summary(self, targets: Tensor, levels: Sequence[float] = ()) -> int:
        return len(targets) + len(levels)


class Own(Undeclared):
    predicts = Count


def test_what_declares_nothing_is_refused_before_any_network_is_asked() -> None:
    text = (
        "`likelihood` (='Undeclared') must declare what it predicts, but says predicts = None; set its class attribute "
        "`predicts` to one of ['classes', 'labels', 'values'], or to a tb.Predictive of your own."
    )
    with refused(text):
        predict(regressor(), inputs(), 3, likelihood=Undeclared())


def test_values_need_a_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """And it is said before any network is asked."""
    monkeypatch.setattr(Silent, "response", lambda *_: pytest.fail("it was asked"))
    text = (
        "`likelihood` (='Silent') must say how observations scatter about its values; "
        "let noise_law() return e.g. tb.NormalNoise(scale)."
    )
    with refused(text):
        predict(regressor(), inputs(), 3, likelihood=Silent())


def test_a_prediction_of_ones_own_is_made() -> None:
    pred = predict(regressor(), inputs(), 3, likelihood=Own())
    assert type(pred) is Count
    assert pred.samples.shape == (3, 15, 1)
    assert pred.summary(inputs()) == 15
    text = (
        "`samples` (=AutoSamples(tolerance=0.005, cap=1600, level=0.95, first=50)) must be a number for a Count, "
        "which knows no decisions; name how many networks to draw, e.g. samples=200."
    )
    with refused(text):
        predict(regressor(), inputs(), tb.AutoSamples(), likelihood=Own())
    with pytest.raises(ValueError, match="must predict classes, labels or values, but it predicts a Count"):
        tb.calibrate(regressor(), torch.zeros(30, 4).double(), torch.zeros(30), Own(), progress=False)
    with pytest.raises(TypeError, match="must be a ClassPredictive"):
        tb.conformalise(pred, inputs())


def test_the_model_knows_what_it_was_trained_with() -> None:
    model = regressor(outputs=2)
    targets = inputs()[:, :2]
    elbo = tb.ELBO(tb.Gaussian(0.5), data_size=15)
    tb.fit(model, elbo, [(inputs(), targets)], torch.optim.SGD(model.parameters(), lr=0.01), progress=False)
    remembered = predict(model, inputs(), 5)
    assert isinstance(remembered, tb.RegressionPredictive)
    assert torch.equal(
        remembered.log_density(targets), predict(model, inputs(), 5, elbo.likelihood).log_density(targets)
    )
    assert isinstance(
        predict(model, inputs(), 5, likelihood=tb.Categorical()), tb.ClassPredictive
    )  # the given one wins
    report = tb.layer_report(model, inputs(), samples=5)
    assert report.everything.epistemic == pytest.approx(float(remembered.epistemic.mean()))


def test_a_model_that_knows_of_none_is_a_classifier() -> None:
    assert isinstance(predict(classifier(), inputs(), 3), tb.ClassPredictive)


def test_a_model_filled_from_a_state_says_that_it_knows_of_none(tmp_path: Path) -> None:
    """Two outputs of a regression would look like two classes."""
    state, model = regressor(outputs=2).state_dict(), regressor(outputs=2)
    model.load_state_dict(state)
    words = r"filled from a state_dict, which does not say .* taken for classes\. Say it by likelihood="
    for ask in (lambda: predict(model, inputs(), 3), lambda: tb.Ensemble(nn.Sequential(model), 3)):
        with pytest.warns(UserWarning, match=words):
            ask()
    predict(model, inputs(), 3, likelihood=tb.Categorical())  # which is said
    with pytest.warns(UserWarning, match=r"neither does the file: .* Pass likelihood=tb\.Categorical\(\) or whatever"):
        tb.save(model, tmp_path / "unknown")  # once it is loaded nobody says it any more
    tb.save(model, tmp_path / "model", likelihood=tb.Gaussian(0.5))
    again = tb.load(tmp_path / "model", copy.deepcopy(model.module))
    assert isinstance(predict(again, inputs(), 3), tb.RegressionPredictive)
    tb.ELBO(tb.Gaussian(0.5), data_size=15)(model, inputs(), inputs()[:, :2])
    assert isinstance(predict(model, inputs(), 3), tb.RegressionPredictive)


def test_calibration_takes_the_remembered_one_and_keeps_the_temperature_in_it() -> None:
    model, likelihood = classifier(), tb.Categorical()
    remember(model, likelihood)
    found = tb.calibrate(model, inputs(40), torch.arange(40) % 3, temperature=True, samples=5, progress=False)
    assert likelihood.temperature is not None
    assert float(likelihood.temperature) == pytest.approx(found.temperature)
    found.undo()
    assert likelihood.temperature is None


@pytest.mark.parametrize("likelihood", [tb.StudentT(df=5.0, scale=0.1), tb.HeteroscedasticGaussian()])
def test_calibration_widens_every_noise(likelihood: tb.Likelihood) -> None:
    model = regressor(outputs=2 if isinstance(likelihood, tb.HeteroscedasticGaussian) else 1)
    before = likelihood.noise_law()
    targets = 30 * torch.randn(40, generator=torch.Generator().manual_seed(0)).double()
    found = tb.calibrate(model, inputs(40), targets, likelihood, samples=5, progress=False)
    assert found.noise_factor > 2
    assert found.after < found.before
    again = predict(model, inputs(40), 5, likelihood=likelihood)
    assert -float(again.log_density(targets).mean()) == pytest.approx(found.after, rel=1e-5)
    found.undo()
    assert likelihood.noise_law() == before


def test_calibration_of_counts_sets_the_weights_alone() -> None:
    found = tb.calibrate(regressor(), inputs(40), torch.arange(40) % 4, tb.Poisson(), samples=5, progress=False)
    assert found.noise_factor == 1.0
    assert found.after <= found.before


def test_conformal_intervals_of_counts_and_outliers() -> None:
    targets = torch.arange(40) % 4
    for likelihood in (tb.Poisson(), tb.StudentT(df=3.0)):
        pred = predict(regressor(), inputs(40), 9, likelihood=likelihood)
        lower, upper = tb.conformalise(pred, targets).intervals(pred, 0.9)
        assert ((lower[:, 0] <= targets) & (targets <= upper[:, 0])).double().mean() >= 0.9
    text = (
        "`pred` (=StudentTNoise(df=2.0, scale=1.0)) must have a finite standard deviation, which scores are measured "
        "in; use a StudentT with df above 2, or pred.observation_interval."
    )
    with refused(text):
        tb.conformalise(predict(regressor(), inputs(40), 3, likelihood=tb.StudentT(df=2.0)), targets)


def test_raw_outputs_of_any_networks_become_a_prediction() -> None:
    model = classifier()
    stacked = torch.stack([model(inputs()) for _ in range(6)]).detach()
    pred = predictive_from(tb.Categorical(), stacked)
    assert torch.equal(pred.samples, stacked.softmax(-1))
    reduced = predictive_from(tb.Categorical(), stacked, keep_samples=False, levels=(0.9,))
    assert torch.equal(reduced.interval(0.9)[0], pred.interval(0.9)[0])
    values = predictive_from(tb.Gaussian(0.5), stacked[..., 0])
    assert values.mean.shape == (15, 1)
    with refused(
        "`outputs` (=tensor of shape (3,), torch.float32) must have the shape (S, N, …), of at least one network and "
        "example; stack what the networks returned: torch.stack(outputs)."
    ):
        predictive_from(tb.Categorical(), torch.zeros(3))


def test_a_network_with_several_bayesian_parts_remembers() -> None:
    parts = nn.Sequential(tb.to_bayesian(nn.Linear(4, 3)), nn.Tanh(), tb.to_bayesian(nn.Linear(3, 2))).double()
    elbo = tb.ELBO(tb.MultiLabel(), data_size=15)
    elbo(parts, inputs(), (inputs()[:, :2] > 0).double())
    assert isinstance(predict(parts, inputs(), 3), tb.LabelPredictive)


def test_a_yes_or_no_is_judged_by_the_targets_it_was_trained_with() -> None:
    model, x = tb.to_bayesian(nn.Linear(4, 1), generator=0), torch.randn(40, 4)
    answers = (x[:, :1] > 0).float()  # (N, 1), as the outputs are
    tb.ELBO(tb.Bernoulli(), data_size=40)(model, x, answers)
    pred = tb.predict(model, x, 5, progress=False)
    expected = pred.summary(answers.flatten().long()).as_dict()
    for truth in (answers, answers.flatten(), answers.bool(), answers.double().numpy()):
        assert pred.summary(truth).as_dict() == expected
    tb.calibrate(model, x, answers, samples=5, progress=False)
    with pytest.raises(TypeError, match="must be a tensor of class indices"):
        pred.summary(answers / 2)
    with pytest.raises(ValueError, match=r"must have the shape \(40,\), one per example"):
        pred.summary(answers.expand(40, 2))


class Says(Undeclared):
    """Someone's own, whose response is what a function makes of the outputs."""

    def __init__(self, predicts: str, response: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.__dict__["predicts"], self.said = predicts, response

    def response(self, outputs: Tensor) -> Tensor:
        return self.said(outputs)

    def noise_law(self) -> tb.Noise:
        return OwnScaleNoise()


MENDED = "that sum to 1 over the last axis; mend its response(outputs): of logits return outputs.softmax(-1), not logar"
NO_RESPONSES = {
    "logits": ("classes", lambda outputs: outputs, f"probabilities of the classes, (N, …, C), {MENDED}"),
    "logarithms": (
        "classes",
        lambda outputs: outputs.log_softmax(-1),
        f"probabilities of the classes, (N, …, C), {MENDED}",
    ),
    "of yes alone": ("labels", torch.sigmoid, f"probabilities of no and yes, (N, …, L, 2), {MENDED}"),
    "of one class": (
        "classes",
        lambda outputs: outputs[:, 0].sigmoid(),
        f"probabilities of the classes, {'(N, …, C)'}",
    ),
    "a column": (
        "values",
        lambda outputs: outputs[:, 0],
        "values, (N, 2 D) for its OwnScaleNoise, but gave (15,); men",
    ),
    "places alone": (
        "values",
        lambda outputs: outputs,
        "values, (N, 2 D) for its OwnScaleNoise, but gave (15, 3); men",
    ),
}


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("case", NO_RESPONSES)
def test_responses_that_are_not_what_is_declared_are_refused(case: str, keep: bool) -> None:
    """Logits taken for probabilities have entropies of minus infinity, and are quite certain."""
    predicts, response, text = NO_RESPONSES[case]
    words = re.escape(f"`likelihood` (='Says') must respond with {text}")
    with pytest.raises(ValueError, match=words):
        predict(classifier(), inputs(), 3, likelihood=Says(predicts, response), keep_samples=keep)
    with pytest.raises(ValueError, match=words):
        tb.Ensemble(classifier(), 3, likelihood=Says(predicts, response)).predict(inputs(), keep_samples=keep)


def test_an_average_of_weights_is_the_model_that_it_averages() -> None:
    model = regressor(outputs=2)
    remember(model, tb.Gaussian())
    averaged = AveragedModel(model)
    found = predict(averaged, inputs(), 3)
    assert isinstance(found, tb.RegressionPredictive)
    assert torch.equal(found.samples, predict(model, inputs(), 3).samples)
