"""ln q(w) of a draw: against the dense covariance by torch's MultivariateNormal, and for every family."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor
from torch.distributions import Independent, MultivariateNormal, Normal

import tribayes as tb
from tests.networks import any_family, any_network, bayesian


def dense(model: tb.BayesianModule, draw: dict[str, Tensor]) -> Tensor:
    """The same by a dense covariance for each tensor, written out from τ, ρ and the means."""
    total = torch.zeros((), dtype=torch.float64)
    tau, rho = torch.nn.functional.softplus(model.family.delta), torch.sigmoid(model.family.gamma) - 0.5
    for number, (name, mean) in enumerate(model.means()):
        m = mean.flatten()
        neighbours = torch.diag(torch.ones(len(m) - 1, dtype=m.dtype), 1)
        correlation = torch.eye(len(m), dtype=m.dtype) + rho[number] * (neighbours + neighbours.T)
        covariance = tau[number] ** 2 * m.abs().outer(m.abs()) * correlation
        value = draw[name].reshape(*draw[name].shape[: draw[name].ndim - mean.ndim], -1)
        total = total + MultivariateNormal(m, covariance).log_prob(value)
    return total


@pytest.mark.parametrize("count", [None, 4])
def test_it_is_the_dense_one_with_its_gradients(count: int | None) -> None:
    model = bayesian("MLP", rho={"*weight": 0.3, "*bias": -0.45})
    draw = {name: value.detach().requires_grad_() for name, value in model.sample_weights(count, generator=1).items()}
    ours, theirs = model.log_prob(draw), dense(model, draw)
    assert ours.shape == (() if count is None else (count,))
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    wanted = [*draw.values(), *model.parameters()]
    pairs = (torch.autograd.grad(one.sum(), wanted) for one in (ours, theirs))
    for one, other in zip(*pairs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)


@any_network
def test_it_takes_the_draws_of_any_network(name: str) -> None:
    model = bayesian(name, rho=0.2)
    draw = model.sample_weights(generator=0)
    torch.testing.assert_close(model.log_prob(draw), dense(model, draw), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("family", ["diagonal", "mean_field"])
def test_independent_weights_are_a_sum_of_normals(family: str) -> None:
    model = bayesian("MLP", family=family)
    draw = model.sample_weights(3, generator=0)
    if family == "diagonal":
        scales = torch.nn.functional.softplus(model.family.delta)
        deviations = [scale * mean.abs() for scale, (_, mean) in zip(scales, model.means(), strict=True)]
    else:
        deviations = [torch.nn.functional.softplus(raw) for raw in model.family.raw_scale]
    expected = sum(
        Independent(Normal(mean, deviation), mean.ndim).log_prob(draw[name])
        for (name, mean), deviation in zip(model.means(), deviations, strict=True)
    )
    torch.testing.assert_close(model.log_prob(draw), expected, rtol=1e-12, atol=1e-12)


@any_family
def test_a_divergence_by_draws_is_the_exact_one(family: str) -> None:
    # the mean of ln q − ln p over 4,000 draws, seed 2: beyond 6 standard errors with probability 2e-9
    model = bayesian("MLP", family=family)
    draw = model.sample_weights(4000, generator=2)
    prior = sum(Normal(0.0, 1.0).log_prob(value).flatten(1).sum(1) for value in draw.values())
    each = (model.log_prob(draw) - prior).detach()
    assert abs(each.mean() - model.kl()).item() < 6 * (each.std() / 4000**0.5).item()


def test_in_float32_a_long_tensor_keeps_its_digits() -> None:
    torch.manual_seed(0)
    model = tb.to_bayesian(torch.nn.Linear(300, 100), tau=0.1, rho=0.4, generator=0)
    draw = model.sample_weights(generator=1)
    exact = model.double().log_prob({name: value.double() for name, value in draw.items()})
    torch.testing.assert_close(model.float().log_prob(draw).double(), exact, rtol=1e-5, atol=0.0)


NAMES = "have all of 0.weight, 0.bias, 2.weight, 2.bias; pass what sample_weights() returns."


def test_what_is_no_draw_is_refused() -> None:
    model = bayesian("MLP")
    draw = model.sample_weights()
    cases = {
        f"`draw` (=3) must {NAMES}": 3,
        f"`draw` (=['0.weight']) must {NAMES}": {"0.weight": draw["0.weight"]},
        "`draw` (=(4, 6)) must have the shape (6, 4) for '0.weight', or n of them stacked, for all alike; pass": {
            **draw,
            "0.weight": draw["0.weight"].T,
        },
        "`draw` (=(6, 4)) must have the shape (6, 4) for '0.weight', or n of them stacked, for all alike; pass": {
            **draw,
            "2.bias": draw["2.bias"].expand(3, -1),
        },
    }
    for text, given in cases.items():
        with pytest.raises(ValueError, match="^" + re.escape(text)):
            model.log_prob(given)
