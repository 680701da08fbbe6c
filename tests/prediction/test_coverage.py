"""Credible intervals cover the truth as often as they say, on data simulated from the posterior itself.

Every other output of a linear layer is independent of the rest: a wide layer is thousands of repetitions at once.
Tests are seeded and state their failure rate; see test_linear_model.py for the rule about seeds.
"""

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.prediction.models import binomial_bound, predict

REPETITIONS, SAMPLES, NOISE, RATE = 2000, 101, 0.5, 1e-6
ONE = torch.ones(1, 1, dtype=torch.float64)


def many_worlds() -> tb.BayesianModule:
    """2 · REPETITIONS weights, of which neighbours are correlated and all others independent."""
    layer = nn.Linear(1, 2 * REPETITIONS, bias=False).double()
    with torch.no_grad():
        layer.weight.copy_(torch.linspace(0.5, 3, 2 * REPETITIONS).unsqueeze(1))
    return tb.to_bayesian(layer, tau=0.5, rho=-0.3)


@pytest.fixture(scope="module")
def pred() -> tb.RegressionPredictive:
    return predict(many_worlds(), ONE, SAMPLES, likelihood=tb.Gaussian(NOISE))


@pytest.fixture(scope="module")
def truth() -> Tensor:
    """A network that the prediction did not draw, (1, 2 · REPETITIONS)."""
    return predict(many_worlds(), ONE, range(1000, 1001), likelihood=tb.Gaussian()).samples[0]


@pytest.fixture(scope="module")
def observed(truth: Tensor) -> Tensor:
    return truth + NOISE * torch.randn(truth.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def covered(interval: tuple[Tensor, Tensor], value: Tensor) -> float:
    lower, upper = interval
    return float(((lower <= value) & (value <= upper))[:, ::2].double().mean())


@pytest.mark.parametrize("level", [0.5, 0.9, 0.98])
def test_the_functions_interval_covers_a_new_network(
    pred: tb.RegressionPredictive, truth: Tensor, level: float
) -> None:
    """101 samples and a truth of the same law: its rank is uniform, so coverage is exactly 100 · level / 102.

    Failure rate 1e-6.
    """
    expected = 100 * level / 102
    assert abs(covered(pred.interval(level), truth) - expected) < binomial_bound(REPETITIONS, expected, RATE)


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_the_observations_interval_covers_a_new_observation(
    pred: tb.RegressionPredictive, observed: Tensor, level: float
) -> None:
    """Failure rate 1e-6; at most 2/S is lost because a mixture of S networks is narrower than the law they are from."""
    allowed = binomial_bound(REPETITIONS, level, RATE) + 2 / SAMPLES
    assert abs(covered(pred.observation_interval(level), observed) - level) < allowed


def test_the_functions_interval_is_too_narrow_for_an_observation(
    pred: tb.RegressionPredictive, observed: Tensor
) -> None:
    """What the test above would see if the noise were forgotten."""
    assert covered(pred.interval(0.95), observed) < 0.9


QUESTIONS = 20_000  # of yes or no, each with a logit of its own


def yes_or_no(samples: int | range) -> tb.ClassPredictive:
    """An embedding's rows are the logits; every other one is independent of the rest."""
    logits = nn.Embedding(QUESTIONS, 1).double()
    with torch.no_grad():
        logits.weight.copy_(torch.linspace(-3, 3, QUESTIONS).unsqueeze(1))
    return predict(tb.to_bayesian(logits, tau=0.8, rho=0.2), torch.arange(QUESTIONS), samples, tb.Bernoulli())


def test_intervals_of_class_probabilities_cover_a_new_networks() -> None:
    """Failure rate 1e-6; coverage is 100 · level / 102 again, for both classes, since the sigmoid is monotone."""
    lower, upper = yes_or_no(SAMPLES).interval(0.9)
    truth = yes_or_no(range(500, 501)).samples[0]
    inside = ((lower <= truth) & (truth <= upper))[::2].double().mean(0)
    assert (inside - 90 / 102).abs().max() < binomial_bound(QUESTIONS // 2, 90 / 102, RATE / 2)


def test_mean_probabilities_are_calibrated() -> None:
    """Labels drawn from a new network: the mean of label − probability is zero, above and below one half.

    Failure rate 1e-6, by Bernstein's inequality with the largest possible variance.
    """
    probability = yes_or_no(SAMPLES).mean[:, 1]
    truth = yes_or_no(range(500, 501)).samples[0, :, 1]
    yes = torch.rand(QUESTIONS, generator=torch.Generator().manual_seed(2), dtype=torch.float64) < truth
    excess = (yes.double() - probability)[::2]
    for half in (probability[::2] > 0.5, probability[::2] <= 0.5):
        assert abs(float(excess[half].mean())) < binomial_bound(int(half.sum()), 0.5, RATE / 2)
