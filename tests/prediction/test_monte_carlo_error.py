"""The stated error of sampling is the spread of results over repeated predictions.

Every other output of a linear layer with equal means is such a repetition, with noise of its own. The statistical
tests are seeded and state their failure rate; see test_linear_model.py for the rule about seeds.
"""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.prediction import brute
from tests.prediction.models import dirichlet, predict, predictive

REPETITIONS, SAMPLES, TAU = 2000, 400, 0.5


@pytest.fixture(scope="module")
def repeated() -> tb.RegressionPredictive:
    """The same question, asked 2 · REPETITIONS times: N(1, τ²)."""
    layer = nn.Linear(1, 2 * REPETITIONS, bias=False).double()
    nn.init.ones_(layer.weight)
    model = tb.to_bayesian(layer, tau=TAU, rho=0.3)
    return predict(model, torch.ones(1, 1, dtype=torch.float64), SAMPLES, likelihood=tb.Gaussian())


def spread(results: Tensor) -> float:
    return float(results[0, ::2].std())


def typical(errors: Tensor) -> float:
    """The root mean square: variances average, standard deviations do not."""
    return float(errors[0, ::2].square().mean().sqrt())


def test_error_of_the_mean(repeated: tb.RegressionPredictive) -> None:
    """The spread of R normal results is known up to 1/√(2R); five times that, failure rate 1e-6."""
    allowed = 5 / math.sqrt(2 * REPETITIONS)
    stated = typical(repeated.monte_carlo_error().mean)
    assert stated == pytest.approx(TAU / math.sqrt(SAMPLES), rel=0.01)
    assert spread(repeated.mean) == pytest.approx(stated, rel=allowed)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_errors_of_the_bounds(repeated: tb.RegressionPredictive, level: float) -> None:
    """The same allowance and failure rate, and 10 % for taking the slope over one standard error."""
    allowed = 5 / math.sqrt(2 * REPETITIONS) + 0.1
    error = repeated.monte_carlo_error(level)
    for bound, stated in zip(repeated.interval(level), (error.lower, error.upper), strict=True):
        assert spread(bound) == pytest.approx(typical(stated), rel=allowed)


def test_its_definition() -> None:
    samples = dirichlet(30, 4, 3)
    error = predictive(samples).monte_carlo_error(0.8)
    np.testing.assert_allclose(error.mean, samples.numpy().std(0, ddof=1) / math.sqrt(30), rtol=1e-12)
    for found, tail in ((error.lower, 0.1), (error.upper, 0.9)):
        step = math.sqrt(tail * (1 - tail) / 30)
        for n, c in np.ndindex(4, 3):
            column = samples[:, n, c].tolist()
            expected = (brute.quantile(column, tail + step) - brute.quantile(column, tail - step)) / 2
            assert found[n, c].item() == pytest.approx(expected, rel=1e-9)


def test_probabilities_beyond_0_and_1_are_cut() -> None:
    """Few samples and a wide level: one standard error below the lower tail is no probability any more."""
    samples = dirichlet(5, 4, 3)
    error = predictive(samples).monte_carlo_error(0.99)
    tail = 0.005
    upper = torch.quantile(samples, tail + math.sqrt(tail * (1 - tail) / 5), dim=0)
    torch.testing.assert_close(error.lower, (upper - samples.amin(0)) / 2, rtol=1e-9, atol=1e-12)


def test_the_largest_of_each_in_plain_numbers() -> None:
    error = predictive(dirichlet(30, 4, 3)).monte_carlo_error()
    worst = error.as_dict()
    assert worst == {name: getattr(error, name).max().item() for name in ("mean", "lower", "upper")}
    assert str(error) == (
        f"largest standard error from sampling: mean {worst['mean']:.3g}, "
        f"interval bounds {worst['lower']:.3g} and {worst['upper']:.3g}"
    )


def test_one_network_knows_no_error_of_sampling() -> None:
    """Its standard deviation of 0 would say that there is none."""
    with pytest.raises(ValueError, match=r"`samples` \(=1\) must be at least 2 to have an error of sampling; a single"):
        predictive(dirichlet(1, 4, 3)).monte_carlo_error()
