"""Our closed form against the paper's own equations, evaluated literally (tests/oracle/paper.py)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence

from tests.oracle import paper
from tests.posterior.cases import CASES, assert_agree, law_of, leaf, means, normals
from tribayes.posterior.parametrisation import rho_of, tau_of

every_case = pytest.mark.parametrize(("size", "delta", "gamma"), CASES)
NU, KAPPA = 0.01, 50.0
PRIOR_SCALE = 0.7


def _law(size, delta, gamma):
    raw = leaf(means(size)), leaf(delta), leaf(gamma)
    return law_of(*raw), raw


@every_case
def test_parameters_and_factor_are_the_papers(size, delta, gamma):
    law, _ = _law(size, delta, gamma)
    a, c = paper.factor(means(size), paper.tau_of(delta), paper.rho_of(gamma))
    assert_agree(law.tau, paper.tau_of(delta))
    assert_agree(law.rho, paper.rho_of(gamma))
    ours_a, ours_c = law.factor
    assert_agree(ours_a, a)
    assert_agree(ours_c, c)


@every_case
def test_covariance_is_the_papers(size, delta, gamma):
    law, _ = _law(size, delta, gamma)
    stated = paper.covariance(means(size), paper.tau_of(delta), paper.rho_of(gamma))
    assert_agree(law.covariance_matrix, stated)
    dense = paper.lower_bidiagonal(*(part.detach().numpy() for part in law.factor))
    assert_agree(dense @ dense.T, stated)


@every_case
def test_divergence_and_its_gradients_are_the_papers(size, delta, gamma):
    prior_loc = normals(size, seed=3)
    law, raw = _law(size, delta, gamma)
    ours = kl_divergence(law, Normal(torch.tensor(prior_loc), PRIOR_SCALE))
    assert_agree(ours, paper.kl(means(size), delta, gamma, prior_loc, PRIOR_SCALE))
    gradients = torch.autograd.grad(ours, raw)
    theirs = paper.kl_gradient(means(size), delta, gamma, prior_loc, PRIOR_SCALE)
    for our, their in zip(gradients, theirs, strict=True):
        assert_agree(our, their)


@every_case
def test_draw_through_the_factor_has_the_papers_gradients(size, delta, gamma):
    """The sample (25)-(27) and the whole backward pass of the pseudocode, KL and κ included."""
    x, loss_gradient = normals(size), normals(size, seed=2)
    law, raw = _law(size, delta, gamma)
    a, c = law.factor
    draw = law.loc + a * torch.tensor(x)
    draw = draw + torch.cat([torch.zeros(1, dtype=torch.float64), c * torch.tensor(x[:-1])])
    assert_agree(draw, paper.sample(means(size), a.detach().numpy(), c.detach().numpy(), x))

    prior = Normal(*torch.tensor([0.0, PRIOR_SCALE], dtype=torch.float64))
    objective = draw @ torch.tensor(loss_gradient) + NU * kl_divergence(law, prior)
    ours = torch.autograd.grad(objective, raw)
    theirs = paper.backward(means(size), delta, gamma, x, loss_gradient, 0.0, PRIOR_SCALE, NU, KAPPA)
    assert_agree(ours[0], theirs[0])
    assert_agree(ours[1], theirs[1])
    assert_agree(KAPPA * ours[2], theirs[2])


@pytest.mark.parametrize(("size", "delta", "gamma"), [case for case in CASES if 1 < case[0] <= 64])
def test_the_double_loop_sums_zeros(size, delta, gamma):
    """∂c_i/∂m_k vanishes unless k = i + 1, and ∂a_i/∂m_k unless k = i: the paper's other terms are all zero."""
    tau, rho = paper.tau_of(delta), paper.rho_of(gamma)
    by_c, by_a = paper.c_derivative_m(means(size), tau, rho), paper.a_derivative_m(means(size), tau, rho)
    kept_c, kept_a = np.eye(size - 1, size, k=1, dtype=bool), np.eye(size, dtype=bool)
    # a relative bound per entry: a term is zero if it is rounding error of what it was computed from
    m = np.abs(means(size))
    assert np.all(np.abs(by_c[~kept_c]) * m.min() <= 1e-11 * tau * m.max())
    assert np.all(np.abs(by_a[~kept_a]) * m.min() <= 1e-11 * tau * m.max())
    assert np.all(by_c[kept_c] != 0)
    assert np.all(by_a[kept_a] != 0)


def test_absolute_values_of_c_do_not_give_the_cholesky_factor_for_negative_rho():
    """The paper says so after its equation (9). By (6), |c| > 0 and ρ < 0 make every a but the last negative."""
    m, tau, rho = means(5), 0.5, -0.3
    _, c = paper.factor(m, tau, rho)
    a_of_absolute_c = rho * tau**2 * np.abs(m[:-1]) * np.abs(m[1:]) / np.abs(c)
    assert np.all(a_of_absolute_c < 0)  # a Cholesky factor has a positive diagonal
    cholesky = np.linalg.cholesky(paper.covariance(m, tau, rho))
    assert_agree(np.diag(cholesky, -1), np.sign(rho) * np.abs(c))


def test_small_correlations_keep_their_digits():
    """sigmoid(γ) − ½ loses half the digits of a small γ in float32; ours is γ/4 to the last one."""
    gamma = torch.tensor(1e-5)
    assert rho_of(gamma).item() == pytest.approx(2.5e-6, rel=1e-6)
    assert tau_of(torch.tensor(-4.600166, dtype=torch.float64)).item() == pytest.approx(0.01, rel=1e-6)
