"""The relative prior: the best scale for each weight, by the general divergence and by a search."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

import tribayes as tb
from tests.posterior.cases import CASES, law_of, leaf, means
from tribayes.posterior import FactorisedNormal
from tribayes.posterior.draw import plain
from tribayes.posterior.parametrisation import tau_of
from tribayes.posterior.prior import BestScale


def _closed_form(mean: Tensor, delta: Tensor, gamma: Tensor) -> Tensor:
    return plain.divergence_of([mean], delta.reshape(1), gamma.reshape(1), [BestScale()])


@pytest.mark.parametrize(("size", "delta", "gamma"), CASES)
def test_it_is_the_divergence_from_the_best_scale_of_each_weight(size: int, delta: float, gamma: float) -> None:
    """With ζ² = (1 + τ²) m² put into equation (30); value and gradients, for ζ is where the divergence is flat."""
    mean, raw_delta, raw_gamma = leaf(means(size)), leaf(delta), leaf(gamma)
    law = law_of(mean, raw_delta, raw_gamma)
    zeta = (mean.detach().square() * (1 + tau_of(raw_delta.detach()) ** 2)).sqrt()
    general, ours = kl_divergence(law, Normal(torch.zeros(()), zeta)), _closed_form(mean, raw_delta, raw_gamma)
    torch.testing.assert_close(ours, general, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(BestScale().divergence(law), general, rtol=1e-10, atol=1e-10)
    slopes = torch.autograd.grad(general, [mean, raw_delta, raw_gamma], retain_graph=True)
    found = torch.autograd.grad(ours, [raw_delta, raw_gamma])
    assert slopes[0].abs().max() * mean.abs().max() < 1e-8  # the means are left alone
    for one, other in zip(found, slopes[1:], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(("delta", "gamma"), [(-3.0, 0.0), (-1.0, 2.0), (1.0, -5.0)])
def test_no_scales_are_better(delta: float, gamma: float) -> None:
    """A search over one scale per weight ends where the closed form says."""
    law = law_of(leaf(means(6)), leaf(delta), leaf(gamma))
    log_zeta = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    search = torch.optim.LBFGS(
        [log_zeta], max_iter=500, tolerance_grad=1e-12, tolerance_change=1e-16, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        search.zero_grad()
        found = kl_divergence(law, Normal(torch.zeros(()), log_zeta.exp()))
        found.backward(retain_graph=True)
        return found

    search.step(closure)
    best = law.mean.square() + law.variance
    torch.testing.assert_close(log_zeta.detach().exp().square(), best.detach(), rtol=1e-5, atol=0)
    torch.testing.assert_close(BestScale().divergence(law).detach(), closure().detach(), rtol=1e-9, atol=1e-9)


def test_mean_field_has_its_own_best_scale() -> None:
    mean = torch.tensor([0.5, -2.0, 0.0], dtype=torch.float64)
    scale = torch.tensor([0.1, 1.0, 3.0], dtype=torch.float64)
    expected = 0.5 * torch.log1p((mean / scale) ** 2).sum()
    torch.testing.assert_close(BestScale().divergence(FactorisedNormal(mean, scale)), expected)
    model = tb.to_bayesian(nn.Linear(3, 2), family="mean_field", prior=tb.RelativePrior())
    generic = sum(BestScale().divergence(law) for law in model.laws().values())
    torch.testing.assert_close(model.kl(), generic)


@pytest.mark.parametrize("family", ["tridiagonal", "diagonal", "mean_field"])
@pytest.mark.parametrize("estimator", ["plain", "local", "antithetic"])
def test_every_family_and_estimator_learns_with_it(family: str, estimator: str) -> None:
    torch.manual_seed(0)
    model = tb.to_bayesian(nn.Linear(4, 3), family=family, prior=tb.RelativePrior())
    elbo = tb.ELBO(tb.Categorical(), data_size=8, samples=2, estimator=estimator)
    step = tb.TrainingStep(model, elbo, torch.optim.SGD(tb.parameter_groups(model, lr=0.01)), generator=0)
    inputs, targets = torch.randn(8, 4), torch.randint(3, (8,))
    before = [row.tau for row in model.posterior()]
    kl = model.kl().item()
    terms = step(inputs, targets)
    assert terms.kl.item() == pytest.approx(kl, rel=1e-5)
    assert [row.tau for row in model.posterior()] != before


@pytest.mark.parametrize("family", ["tridiagonal", "diagonal", "mean_field"])
def test_two_kinds_of_prior_in_one_network(family: str) -> None:
    net = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2))
    prior = {"0.*": tb.RelativePrior(), "*": tb.Prior(scale=0.5)}
    model = tb.to_bayesian(net, family=family, prior=prior, tau=0.3)
    expected = sum(prior.divergence(law) for prior, law in zip(model._priors(), model.laws().values(), strict=True))
    torch.testing.assert_close(model.kl(), expected)
    weights, divergence = model.sample_weights_and_kl(generator=0)
    torch.testing.assert_close(divergence, expected)
    torch.testing.assert_close(weights["0.bias"], model.sample_weights(generator=0)["0.bias"])


def test_it_does_not_care_how_large_the_weights_are() -> None:
    model = tb.to_bayesian(nn.Linear(30, 10), prior=tb.RelativePrior(), tau=0.2, rho=0.3)
    before = model.kl().item()
    with torch.no_grad():
        for _, mean in model.means():
            mean.mul_(1e-3)
    assert model.kl().item() == before


@pytest.mark.parametrize("implementation", ["plain", "cpu"])
def test_means_may_be_zero(implementation: str) -> None:
    """There is no logarithm of them: nothing is guarded, and the gradient of such a mean is that of its weight."""
    model = tb.to_bayesian(nn.Linear(3, 2), prior=tb.RelativePrior(), tau=0.5)
    model.family._implementation = implementation
    with torch.no_grad():
        model.module.weight[0, 1] = 0.0
    tb.stabilise_(model)
    assert model.module.weight[0, 1] == 0
    weights, divergence = model.sample_weights_and_kl(generator=0)
    (weights["weight"].sum() * 3 + divergence).backward()
    assert model.module.weight.grad.isfinite().all()
    assert model.module.weight.grad[0, 1] == 3
    assert math.isfinite(divergence.item())


def test_a_plan_says_so() -> None:
    plan = tb.to_bayesian(nn.Linear(2, 1), prior=tb.RelativePrior(), dry_run=True)
    assert "relative" in str(plan)


def test_another_prior_is_refused() -> None:
    with pytest.raises(TypeError, match=r"`prior` \(=Normal.*must be a tribayes.Prior or RelativePrior"):
        tb.to_bayesian(nn.Linear(2, 1), prior=Normal(0, 1))  # type: ignore[arg-type]


def test_it_is_kept_and_copied_with_the_model() -> None:
    model = tb.to_bayesian(nn.Linear(4, 3), prior=tb.RelativePrior(), tau=0.3)
    other = tb.to_bayesian(nn.Linear(4, 3), prior=tb.RelativePrior(), tau=0.1)
    other.load_state_dict(model.state_dict())
    assert other.kl().item() == model.kl().item()
