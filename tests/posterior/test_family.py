"""Families: the laws they give, and divergences computed for all tensors at once."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from tests.posterior.cases import means
from tribayes.posterior import FAMILIES, FactorisedNormal, Family, TridiagonalNormal
from tribayes.posterior.family import family_of
from tribayes.posterior.prior import TensorPrior

SIZES = (1, 2, 30, 400)
TAU = (0.05, 0.3, 1.2, 0.7)
RHO = (0.0, -0.49, 0.2, -0.3)

every_family = pytest.mark.parametrize("name", sorted(FAMILIES))


def _family(name):
    tensors = [torch.tensor(means(size)).requires_grad_() for size in SIZES]
    return FAMILIES[name](tensors, TAU, RHO), tensors


@every_family
def test_divergence_of_all_tensors_is_the_sum_of_each(name):
    """Values and gradients, for scalar priors and priors with an entry per weight."""
    family, tensors = _family(name)
    per_weight = TensorPrior(torch.randn(30).double(), torch.rand(30).double() + 0.5)
    priors = [TensorPrior(torch.tensor(0.2).double(), torch.tensor(s).double()) for s in (1.0, 0.5, 2.0)]
    priors.insert(2, per_weight)
    at_once = family.divergence(tensors, priors)
    normals = [Normal(prior.loc, prior.scale) for prior in priors]
    one_by_one = sum(kl_divergence(law, prior) for law, prior in zip(family.laws(tensors), normals, strict=True))
    torch.testing.assert_close(at_once, one_by_one, rtol=1e-12, atol=0)
    leaves = [*family.parameters(), *tensors]
    for ours, theirs in zip(torch.autograd.grad(at_once, leaves), torch.autograd.grad(one_by_one, leaves), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-13)


def test_tridiagonal_laws_are_those_of_tau_and_rho():
    family, tensors = _family("tridiagonal")
    for law, mean, tau, rho in zip(family.laws(tensors), tensors, TAU, RHO, strict=True):
        expected = TridiagonalNormal(mean, tau, rho)
        torch.testing.assert_close(law.covariance_matrix, expected.covariance_matrix, rtol=1e-12, atol=1e-18)
        assert torch.equal(law.rsample(generator=1), law.rsample(generator=1))
        torch.testing.assert_close(law.rsample(generator=1), expected.rsample(generator=1), rtol=1e-12, atol=0)


def test_diagonal_is_tridiagonal_without_correlation():
    diagonal, tensors = _family("diagonal")
    for law, mean, tau in zip(diagonal.laws(tensors), tensors, TAU, strict=True):
        assert isinstance(law, FactorisedNormal)
        torch.testing.assert_close(law.variance, TridiagonalNormal(mean, tau, 0.0).variance, rtol=1e-12, atol=0)
        assert diagonal.correlation_parameters() == []


@every_family
def test_the_description_reports_the_start(name):
    family, tensors = _family(name)
    rows = family.describe(tensors)
    assert len(rows) == len(tensors)
    for (tau, rho), expected_tau, expected_rho in zip(rows, TAU, RHO, strict=True):
        assert tau == pytest.approx(expected_tau, rel=1e-6)
        assert rho == pytest.approx(expected_rho if name == "tridiagonal" else 0.0, abs=1e-12)


def test_families_by_name_or_class():
    class Own(FAMILIES["diagonal"]):
        """A family of a user."""

    assert family_of("tridiagonal") is FAMILIES["tridiagonal"]
    assert issubclass(family_of(Own), Family)
    with pytest.raises(ValueError, match=r"`family` \(='full'\) must be one of \['diagonal', 'mean_field', 'tridiag"):
        family_of("full")
    with pytest.raises(TypeError, match=r"`family` \(=3\) must be a name or a subclass"):
        family_of(3)
