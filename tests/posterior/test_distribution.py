"""TridiagonalNormal and FactorisedNormal against their dense twin, torch's MultivariateNormal."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Independent, MultivariateNormal, Normal, kl_divergence

from tests.posterior.cases import law_of, means, normals
from tribayes.posterior import FactorisedNormal, TridiagonalNormal

RAW = [(-3.0, -10.0), (0.5, -0.9), (0.5, 0.0), (-1.0, 2.0), (0.0, 10.0)]
SIZES = (1, 2, 3, 40, 150)


def _tridiagonal(size, delta, gamma, dtype=torch.float64):
    raw = [torch.tensor(v, dtype=dtype, requires_grad=True) for v in (means(size), delta, gamma)]
    return law_of(*raw), raw


def _factorised(size, delta, gamma):
    del gamma
    raw = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (means(size), delta)]
    return FactorisedNormal(raw[0], torch.nn.functional.softplus(raw[1]).expand(size)), raw


def _dense(law):
    covariance = law.covariance_matrix if isinstance(law, TridiagonalNormal) else torch.diag(law.variance)
    return MultivariateNormal(law.mean, covariance)


@pytest.mark.parametrize("make", [_tridiagonal, _factorised])
@pytest.mark.parametrize(("delta", "gamma"), RAW)
@pytest.mark.parametrize("size", SIZES)
class TestDenseTwin:
    """Values and gradients of every structured result equal the dense ones."""

    def _check(self, make, size, delta, gamma, quantity):
        law, raw = make(size, delta, gamma)
        structured, dense = quantity(law), quantity(_dense(law))
        torch.testing.assert_close(structured, dense, rtol=1e-8, atol=1e-8)
        unused = {"allow_unused": True, "materialize_grads": True}
        ours = torch.autograd.grad(structured.sum(), raw, retain_graph=True, **unused)
        theirs = torch.autograd.grad(dense.sum(), raw, **unused)
        for our, their in zip(ours, theirs, strict=True):
            torch.testing.assert_close(our, their, rtol=1e-6, atol=1e-6 * (1 + their.abs().max().item()))

    def test_log_prob(self, make, size, delta, gamma):
        law, _ = make(size, delta, gamma)
        values = law.rsample((3,), generator=0).detach()
        self._check(make, size, delta, gamma, lambda law: law.log_prob(values))

    def test_entropy(self, make, size, delta, gamma):
        self._check(make, size, delta, gamma, lambda law: law.entropy())

    def test_divergence_from_a_scalar_prior(self, make, size, delta, gamma):
        self._check(make, size, delta, gamma, lambda law: self._kl(law, torch.tensor(0.3), torch.tensor(1.7)))

    def test_divergence_from_a_prior_with_an_entry_per_weight(self, make, size, delta, gamma):
        loc, scale = torch.tensor(normals(size)), torch.tensor(normals(size, seed=4)).exp()
        self._check(make, size, delta, gamma, lambda law: self._kl(law, loc, scale))

    @staticmethod
    def _kl(law, loc, scale):
        size = law.event_shape[0]
        loc, scale = loc.double(), scale.double()
        if isinstance(law, MultivariateNormal):
            dense = MultivariateNormal(loc.expand(size), torch.diag(scale.expand(size).square()))
            return kl_divergence(law, dense)
        return kl_divergence(law, Normal(loc, scale))


def test_mean_variance_and_shapes():
    law = TridiagonalNormal(torch.tensor([1.0, -2.0]), 0.5, 0.1)
    assert torch.equal(law.mean, torch.tensor([1.0, -2.0]))
    assert torch.equal(law.mode, law.mean)
    assert torch.equal(law.variance, torch.tensor([0.25, 1.0]))
    assert torch.equal(law.stddev, torch.tensor([0.5, 1.0]))
    assert (law.batch_shape, law.event_shape, law.size) == (torch.Size(), torch.Size([2]), 2)
    assert law.rsample((3, 2)).shape == (3, 2, 2)
    assert law.sample().shape == (2,)
    assert not law.sample().requires_grad


def test_a_batch_of_laws_is_the_laws_one_by_one():
    loc = torch.tensor(means(4 * 9).reshape(4, 9))
    tau, rho = torch.rand(4).double() + 0.1, torch.rand(4).double() - 0.5
    batch = TridiagonalNormal(loc, tau, rho)
    value = batch.rsample((2,), generator=0)
    assert value.shape == (2, 4, 9)
    prior = Normal(torch.tensor(0.1).double(), torch.tensor(2.0).double())
    for i in range(4):
        one = TridiagonalNormal(loc[i], tau[i], rho[i])
        torch.testing.assert_close(batch.log_prob(value)[:, i], one.log_prob(value[:, i]))
        torch.testing.assert_close(batch.entropy()[i], one.entropy())
        torch.testing.assert_close(kl_divergence(batch, prior)[i], kl_divergence(one, prior))
        torch.testing.assert_close(batch.covariance_matrix[i], one.covariance_matrix)


def test_expand_repeats_the_law():
    law = TridiagonalNormal(torch.tensor(means(5)), 0.2, -0.3)
    wide = law.expand((3,))
    assert isinstance(wide, TridiagonalNormal)
    assert wide.batch_shape == (3,)
    torch.testing.assert_close(wide.entropy(), law.entropy().expand(3))
    draws = wide.rsample((2,), generator=1)
    assert draws.shape == (2, 3, 5)
    assert not torch.equal(draws[:, 0], draws[:, 1])


def test_divergence_from_an_independent_prior_is_the_same():
    law = TridiagonalNormal(torch.tensor(means(5)), 0.2, -0.3)
    prior = Normal(torch.zeros(5).double(), torch.full((5,), 0.5).double())
    torch.testing.assert_close(kl_divergence(law, Independent(prior, 1)), kl_divergence(law, prior))
    with pytest.raises(NotImplementedError, match="no closed form"):
        kl_divergence(law, Independent(torch.distributions.Laplace(torch.zeros(5), 1.0), 1))


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize("gamma", [-10.0, -1e-20, 0.0, 1e-3, 10.0])
@pytest.mark.parametrize("delta", [-10.0, -4.6, 0.0, 30.0])
def test_float32_is_finite_and_close_to_float64_everywhere(size, delta, gamma):
    """Every legal raw parameter within the guards, means down to the smallest legal magnitude."""
    results = []
    for dtype in (torch.float32, torch.float64):
        law, raw = _tridiagonal(size, delta, gamma, dtype)
        with torch.no_grad():
            raw[0][0] = 1e-6
        law = law_of(*raw)
        value = (law.loc * (1 + law.tau)).detach()
        terms = torch.stack(
            [
                law.log_prob(value),
                law.entropy(),
                kl_divergence(law, Normal(0.0, 1.0)),
                law.rsample(generator=0).square().sum(),
            ]
        )
        gradients = [
            torch.cat([g.reshape(-1) for g in torch.autograd.grad(term, raw, retain_graph=True, allow_unused=True)])
            for term in terms[1:]
        ]
        assert torch.isfinite(terms).all()
        assert all(torch.isfinite(g).all() for g in gradients)
        results.append([terms[:3], *gradients[:2]])
    if delta < -5:  # w − m cancels all but two digits of a float32 weight: finite, but not comparable
        results = [[terms[1:], *gradients] for terms, *gradients in results]
    for single, double in zip(*results, strict=True):
        torch.testing.assert_close(single.double(), double, rtol=2e-4, atol=2e-4)


def test_ten_million_weights():
    """K = 10⁷ in O(K): a dense anything would need 10¹⁴ entries."""
    loc = torch.full((10_000_000,), 0.5).requires_grad_()
    raw = torch.tensor([-2.0, -1.5], requires_grad=True)
    law = law_of(loc, raw[0], raw[1])
    value = law.rsample(generator=0)
    (value.square().mean() + kl_divergence(law, Normal(0.0, 1.0)) / 1e7).backward()
    assert torch.isfinite(loc.grad).all()
    assert torch.isfinite(raw.grad).all()
    with torch.no_grad():
        # −ln q averages to the entropy; its standard deviation is √(K/2), so six of them: failure rate 2e-9
        assert abs(law.log_prob(value) + law.entropy()) < 6 * (10_000_000 / 2) ** 0.5 + 0.01 * 10_000_000**0.5


class TestRefusals:
    @pytest.mark.parametrize("tau", [0.0, -0.1, float("inf"), float("nan")])
    def test_tau(self, tau):
        with pytest.raises(ValueError, match=r"`tau` \(=.*\) must be finite and positive; it is the standard"):
            TridiagonalNormal(torch.ones(3), tau, 0.0)

    @pytest.mark.parametrize("rho", [0.5, -0.5, 2.0, float("nan")])
    def test_rho(self, rho):
        with pytest.raises(ValueError, match=r"`rho` \(=.*\) must lie strictly between -0.5 and 0.5.*smaller"):
            TridiagonalNormal(torch.ones(3), 0.1, rho)

    @pytest.mark.parametrize("bad", [0.0, float("nan"), float("inf")])
    def test_loc_values(self, bad):
        loc = torch.tensor([1.0, bad, 2.0])
        with pytest.raises(ValueError, match=r"`loc` \(=.* at \(1,\), 1 of 3 entries\) must be finite and non-zero"):
            TridiagonalNormal(loc, 0.1, 0.0)

    def test_loc_types_and_shapes(self):
        with pytest.raises(TypeError, match=r"`loc` .* must be a tensor"):
            TridiagonalNormal([1.0], 0.1, 0.0)
        with pytest.raises(TypeError, match=r"`loc` .* must be float32 or float64; convert it with loc.float"):
            TridiagonalNormal(torch.ones(3, dtype=torch.int64), 0.1, 0.0)
        with pytest.raises(ValueError, match=r"`loc` .* must have a last axis of at least one weight"):
            TridiagonalNormal(torch.ones(0), 0.1, 0.0)
        with pytest.raises(ValueError, match=r"`loc` .* must have a last axis"):
            TridiagonalNormal(torch.tensor(1.0), 0.1, 0.0)

    def test_tau_shape_and_dtype(self):
        with pytest.raises(ValueError, match=r"`tau` \(=tensor of shape \(2,\).* must broadcast against the batch"):
            TridiagonalNormal(torch.ones(3, 4), torch.ones(2), 0.0)
        with pytest.raises(TypeError, match=r"`rho` .* must have the dtype of `loc`, torch.float32"):
            TridiagonalNormal(torch.ones(3), 0.1, torch.tensor(0.0).double())

    def test_value_of_another_size(self):
        with pytest.raises(ValueError, match=r"`value` .* must end in K = 3 entries"):
            TridiagonalNormal(torch.ones(3), 0.1, 0.0).log_prob(torch.ones(4))

    def test_prior_of_another_size(self):
        with pytest.raises(ValueError, match=r"`prior` \(=\(4,\)\) must be scalar or have a last axis of K = 3"):
            kl_divergence(TridiagonalNormal(torch.ones(3), 0.1, 0.0), Normal(torch.zeros(4), 1.0))

    def test_dense_covariance_too_large(self):
        law = TridiagonalNormal(torch.ones(20_000), 0.1, 0.0)
        with pytest.raises(ValueError, match=r"`K` \(=20000\) must be small enough .* use `variance`, `rho` and"):
            _ = law.covariance_matrix

    def test_arguments_satisfy_the_declared_constraints(self):
        law = TridiagonalNormal(torch.tensor([1.0, -2.0]), 0.5, 0.1)
        for name, constraint in law.arg_constraints.items():
            assert constraint.check(getattr(law, name)).all()
        assert not law.arg_constraints["rho"].check(torch.tensor(0.5))
        assert not law.arg_constraints["loc"].check(torch.tensor([1.0, 0.0]))
