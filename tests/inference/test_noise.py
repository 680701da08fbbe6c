"""Noise laws against torch.distributions, SciPy's functions, and closed forms."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tribayes.inference.noise import Averages, Noise, NormalNoise, OwnScaleNoise, PoissonNoise, StudentTNoise
from tribayes.inference.student import student_cdf

SAID = torch.tensor([[0.3, 1.2], [2.0, 0.7], [4.5, 3.0]], dtype=torch.float64)
LAWS: dict[str, tuple[Noise, torch.distributions.Distribution, Tensor]] = {
    "normal": (NormalNoise(0.7), torch.distributions.Normal(SAID, 0.7), SAID + 0.4),
    "own scale": (
        OwnScaleNoise(2.0),
        torch.distributions.Normal(SAID[:, :1], 2 * SAID[:, 1:]),
        SAID[:, :1] - 0.4,
    ),
    "student": (StudentTNoise(3.5, 0.7), torch.distributions.StudentT(3.5, SAID, 0.7), SAID + 0.4),
    "poisson": (PoissonNoise(), torch.distributions.Poisson(SAID), torch.tensor([[0.0, 1.0], [7.0, 2.0], [3.0, 30.0]])),
}


@pytest.mark.parametrize("name", LAWS)
def test_the_density_is_torchs(name: str) -> None:
    noise, law, at = LAWS[name]
    torch.testing.assert_close(noise.law(SAID).log_prob(at.double()), law.log_prob(at.double()), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", LAWS)
def test_the_mean_variance_is_torchs(name: str) -> None:
    noise, law, _ = LAWS[name]
    found = noise.mean_variance(Averages(SAID.mean(0), SAID.square().mean(0)))
    torch.testing.assert_close(found, law.variance.mean(0), rtol=1e-13, atol=0)


@pytest.mark.parametrize("name", ["normal", "own scale"])
def test_the_distribution_function_is_torchs(name: str) -> None:
    noise, law, at = LAWS[name]
    torch.testing.assert_close(noise.law(SAID).cdf(at), law.cdf(at), rtol=1e-13, atol=1e-15)


def test_counts_add_up_to_the_distribution_function() -> None:
    counts = torch.arange(40, dtype=torch.float64)
    for rate in (0.1, 3.0, 12.5):
        law = PoissonNoise().law(torch.tensor(rate, dtype=torch.float64))
        torch.testing.assert_close(law.cdf(counts), law.log_prob(counts).exp().cumsum(0), rtol=1e-12, atol=0)
        assert law.cdf(torch.tensor([-1.0, -0.5])).tolist() == [0.0, 0.0]
        assert law.cdf(torch.tensor(2.9)) == law.cdf(torch.tensor(2.0))


PLACES = torch.cat([torch.linspace(-30, 30, 61), torch.tensor([-1e8, -1e3, -1e-9, 1e-9, 1e3, 1e8])]).double()


def test_students_tails_keep_their_digits() -> None:
    """½ + arctan(t)/π, and ½ (1 + t/√(2 + t²)): written for t < 0 without a difference of nearly equal numbers."""
    tails = PLACES[PLACES < 0]
    torch.testing.assert_close(student_cdf(tails, 1.0), torch.atan(-1 / tails) / math.pi, rtol=1e-12, atol=0)
    root = (2 + tails.square()).sqrt()
    torch.testing.assert_close(student_cdf(tails, 2.0), 1 / (root * (root - tails)), rtol=1e-12, atol=0)


@pytest.mark.parametrize("df", [0.4, 1.0, 2.5, 7.0, 80.0, 5000.0])
def test_students_distribution_function_is_the_integral_of_its_density(df: float) -> None:
    grid = torch.linspace(-3, 4, 20_001, dtype=torch.float64)
    density = torch.distributions.StudentT(torch.tensor(df, dtype=torch.float64)).log_prob(grid).exp()
    odd, even = density[1::2].sum(), density[2:-1:2].sum()
    simpson = (density[0] + 4 * odd + 2 * even + density[-1]) * (grid[1] - grid[0]) / 3
    ends = student_cdf(grid[[0, -1]], df)
    torch.testing.assert_close(ends[1] - ends[0], simpson, rtol=1e-11, atol=0)


def test_students_law_is_symmetric_and_ends_in_0_and_1() -> None:
    torch.testing.assert_close(student_cdf(PLACES, 3.3) + student_cdf(-PLACES, 3.3), torch.ones_like(PLACES))
    assert student_cdf(torch.tensor([-math.inf, 0.0, math.inf]), 3.3).tolist() == [0.0, 0.5, 1.0]


def test_up_to_two_degrees_of_freedom_the_variance_is_infinite() -> None:
    averages = Averages(torch.zeros(1), torch.zeros(1))
    assert StudentTNoise(2.0, 1.0).mean_variance(averages).item() == math.inf
    assert StudentTNoise(3.0, 1.0).mean_variance(averages).item() == pytest.approx(3.0)


@pytest.mark.parametrize("noise", [NormalNoise(0.5), OwnScaleNoise(0.5), StudentTNoise(3.0, 0.5)])
def test_a_widened_noise_has_the_wider_law(noise: Noise) -> None:
    assert noise.can_widen
    wider = noise.widened(4.0)
    said = torch.tensor([0.0, 2.0], dtype=torch.float64)[: noise.numbers]
    inner, outer = noise.law(said), wider.law(said)
    torch.testing.assert_close(outer.cdf(torch.tensor(4.0)), inner.cdf(torch.tensor(1.0)), rtol=1e-12, atol=0)
