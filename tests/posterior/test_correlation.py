"""T(ρ) in closed form against the dense matrix, and against the paper's recursion (8)."""

from __future__ import annotations

import pytest
import torch

from tests.posterior.cases import normals
from tribayes.posterior import correlation
from tribayes.posterior.correlation import first_order_filter

RHOS = (-0.4999, -0.3, 0.0, 1e-9, 0.2, 0.4999)
SIZES = (1, 2, 3, 31, 32, 33, 200, 1100)  # about the block size of the filter, and two levels of it
cases = pytest.mark.parametrize(("size", "rho"), [(size, rho) for size in SIZES for rho in RHOS])


def _dense(size: int, rho: float) -> torch.Tensor:
    beside = torch.full((size - 1,), rho, dtype=torch.float64)
    return torch.eye(size, dtype=torch.float64) + torch.diag(beside, 1) + torch.diag(beside, -1)


def _coefficient(rho: float) -> torch.Tensor:
    return correlation.coefficient_of(torch.tensor(rho, dtype=torch.float64))


@pytest.mark.parametrize("rho", RHOS)
def test_coefficient_and_rho_are_inverse(rho):
    t = _coefficient(rho)
    assert abs(t) < 1
    assert (t / (1 + t.square())).item() == pytest.approx(rho, rel=1e-14, abs=0)


@cases
def test_the_map_from_normals_has_covariance_T_exactly(size, rho):
    """The K × (K + 1) matrix of `correlate`, read off column by column, times its transpose."""
    weights = correlation.mixing(_coefficient(rho))
    columns = correlation.correlate(torch.eye(size + 1, dtype=torch.float64), *weights)
    factor = columns.T  # (K, K + 1)
    torch.testing.assert_close(factor @ factor.T, _dense(size, rho), rtol=0, atol=4e-16)


@cases
def test_log_determinant(size, rho):
    sign, expected = torch.linalg.slogdet(_dense(size, rho))
    assert sign == 1
    ours = correlation.log_determinant(_coefficient(rho), size)
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)


@cases
def test_pivots_follow_the_recursion(size, rho):
    """d_i = 1 − r_{i−1}, r_i = ρ²/(1 − r_{i−1}), r_0 = 0: equation (8) freed of m and τ."""
    r, expected = 0.0, []
    for _ in range(size):
        expected.append(1 - r)
        r = rho**2 / (1 - r)
    ours = correlation.pivots(_coefficient(rho), size)
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64), rtol=1e-11, atol=0)


@cases
def test_quadratic_form(size, rho):
    noise = torch.tensor(normals(size))
    expected = noise @ torch.linalg.solve(_dense(size, rho), noise)
    ours = correlation.quadratic_form(noise, _coefficient(rho))
    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("k", [-0.99, 0.0, 0.5])
def test_filter_solves_its_recurrence(size, k):
    inputs = torch.tensor(normals(size))
    outputs = first_order_filter(inputs, torch.tensor(k, dtype=torch.float64))
    before = torch.cat([torch.zeros(1, dtype=torch.float64), outputs[:-1]])
    torch.testing.assert_close(outputs - k * before, inputs, rtol=0, atol=1e-12)


def test_filter_takes_a_coefficient_per_row_and_differentiates():
    inputs = torch.randn(3, 70, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    k = torch.tensor([-0.9, 0.0, 0.6], dtype=torch.float64)
    rows = torch.stack([first_order_filter(row, value) for row, value in zip(inputs, k, strict=True)])
    torch.testing.assert_close(first_order_filter(inputs, k), rows, rtol=0, atol=1e-14)
    leaves = inputs[:, :40].clone().requires_grad_(), k.clone().requires_grad_()
    assert torch.autograd.gradcheck(first_order_filter, leaves)
