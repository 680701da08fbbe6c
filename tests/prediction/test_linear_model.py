"""A linear model's predictive is Gaussian, with the mean and variance of closed-form.md, section 6.

The tests are seeded. Each states its failure rate, the probability that a correct library fails for a fresh seed. If
one fails after a change that reorders random numbers, it may be given one new seed, not two.
"""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.prediction.models import normal_bound, normal_quantile, predict, tail_bound
from tribayes.prediction.source import tails

TAU, RHO, NOISE, SAMPLES = 0.4, -0.35, 0.25, 4000
MEANS = torch.tensor([[1.0, -0.8, 0.5, 2.0, -0.3]], dtype=torch.float64)
INPUTS = torch.tensor(
    [[1, 1, 1, 1, 1], [1, -1, 1, -1, 1], [0.5, 2, -1, 0.1, 3], [0, 0, 0, 1, 0], [-2, 1, 0, 0, 4]], dtype=torch.float64
)
RATE = 1e-6


def linear() -> tb.BayesianModule:
    layer = nn.Linear(5, 1, bias=False).double()
    with torch.no_grad():
        layer.weight.copy_(MEANS)
    return tb.to_bayesian(layer, tau=TAU, rho=RHO)


def moments() -> tuple[Tensor, Tensor]:
    """E y = Σ m x and Var y = τ² (Σ m² x² + 2ρ Σ |m_i m_{i+1}| x_i x_{i+1}), each (N, 1)."""
    m, x = MEANS[0], INPUTS
    neighbours = (m[:-1] * m[1:]).abs() * x[:, :-1] * x[:, 1:]
    variance = TAU**2 * ((m * x).square().sum(1) + 2 * RHO * neighbours.sum(1))
    return (x @ m).unsqueeze(1), variance.unsqueeze(1)


@pytest.fixture(scope="module")
def pred() -> tb.RegressionPredictive:
    return predict(linear(), INPUTS, SAMPLES, likelihood=tb.Gaussian(NOISE))


def test_the_mean_is_known(pred: tb.RegressionPredictive) -> None:
    """Failure rate 1e-6: a normal mean of S draws, five of them."""
    mean, variance = moments()
    standard = (pred.mean - mean) / (variance / SAMPLES).sqrt()
    assert standard.abs().max() < normal_bound(RATE, len(INPUTS))


def test_the_epistemic_variance_is_known(pred: tb.RegressionPredictive) -> None:
    """Failure rate 1e-6: (S − 1) s²/σ² is chi-square, bounded by Laurent and Massart's inequalities."""
    degrees, slack = SAMPLES - 1, math.log(2 * len(INPUTS) / RATE)
    chi_square = degrees * pred.epistemic / moments()[1]
    assert chi_square.max() < degrees + 2 * math.sqrt(degrees * slack) + 2 * slack
    assert chi_square.min() > degrees - 2 * math.sqrt(degrees * slack)


def test_correlation_decides_the_variance() -> None:
    """The bound above would notice ρ = 0: without it the variances differ by more."""
    _, variance = moments()
    independent = (TAU * MEANS * INPUTS).square().sum(1, keepdim=True)
    assert (variance / independent - 1).abs().max() > 0.3


def test_aleatoric_variance_is_the_noise(pred: tb.RegressionPredictive) -> None:
    torch.testing.assert_close(pred.aleatoric, torch.full_like(pred.mean, NOISE**2), rtol=1e-6, atol=0)
    torch.testing.assert_close(pred.std.square(), pred.epistemic + pred.aleatoric, rtol=1e-14, atol=0)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_intervals_for_the_function_are_the_gaussians(pred: tb.RegressionPredictive, level: float) -> None:
    """Failure rate 1e-6: the Gaussian probability below each bound, against Bernstein's inequality."""
    mean, variance = moments()
    for bound, tail in zip(pred.interval(level), tails(level), strict=True):
        below = torch.special.ndtr((bound - mean) / variance.sqrt())
        allowed = tail_bound(SAMPLES, min(tail, 1 - tail), RATE / (2 * len(INPUTS)))
        assert (below - tail).abs().max() < allowed


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_intervals_for_an_observation_are_the_wider_gaussians(pred: tb.RegressionPredictive, level: float) -> None:
    """Failure rate 1e-6: the mixture's probability below the true quantile is a mean of S numbers in [0, 1]."""
    mean, variance = moments()
    true_std = (variance + NOISE**2).sqrt()
    for bound, tail in zip(pred.observation_interval(level), tails(level), strict=True):
        below = torch.special.ndtr((bound - mean) / true_std)
        allowed = tail_bound(SAMPLES, min(tail, 1 - tail), RATE / (2 * len(INPUTS)))
        assert (below - tail).abs().max() < allowed
        narrow = mean + normal_quantile(tail) * variance.sqrt()
        assert ((bound - narrow) * math.copysign(1, tail - 0.5) > 0).all()  # outside the function's interval


def test_log_density_is_the_gaussians(pred: tb.RegressionPredictive) -> None:
    """At the mean the mixture's density is an average of S known numbers; failure rate 1e-6 by its own spread."""
    mean, variance = moments()
    exact = torch.distributions.Normal(mean, (variance + NOISE**2).sqrt()).log_prob(mean).squeeze(1)
    each = torch.distributions.Normal(pred.samples, NOISE).log_prob(mean).exp().squeeze(-1)  # (S, N)
    relative_error = each.std(0) / each.mean(0) / SAMPLES**0.5
    difference = (pred.log_density(mean) - exact) / relative_error
    assert difference.abs().max() < normal_bound(RATE, len(INPUTS)) * 1.05  # the logarithm bends a little
    np.testing.assert_allclose(pred.log_density(mean), each.mean(0).log(), rtol=1e-5)
