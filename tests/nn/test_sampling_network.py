"""A network that draws inside: the law of the posterior by statistics, one network per seed, nothing else random."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tribayes as tb
from tests.networks import any_family, any_network, bayesian, inputs_of, left_as_it_was
from tribayes.posterior.counter import CountedNormals

SEED = torch.tensor(11)


@any_network
def test_it_answers_as_the_model_under_its_draw(name: str) -> None:
    model, x = bayesian(name).eval(), inputs_of(name)
    with left_as_it_was(model), torch.no_grad():
        network = tb.SamplingNetwork(model)
        expected = model.apply_weights(network.sample_weights(SEED), x)
        torch.testing.assert_close(network(x, seed=SEED), expected, rtol=0, atol=1e-13)


@any_family
def test_its_draws_have_the_model_s_law(family: str) -> None:
    # 20 draws of 10,000 weights, each against its own mean and deviation: over n = 200,000 numbers the mean, of
    # variance (1 + 2ρ)/n, the deviation and the two correlations are off by 6 standard errors with probability 1e-8
    rho = 0.3 if family == "tridiagonal" else 0.0
    model = tb.to_bayesian(nn.Linear(100, 100), family=family, tau=0.2, rho=rho)
    network, law = tb.SamplingNetwork(model), model.laws()["weight"]
    draws = torch.stack([network.sample_weights(seed)["weight"].flatten() for seed in torch.arange(20)])
    scaled = ((draws - law.mean) / law.stddev).detach().double()
    count = scaled.numel()
    assert abs(float(scaled.mean())) < 6 * ((1 + 2 * rho) / count) ** 0.5
    assert abs(float(scaled.square().mean()) - 1) < 6 * (2 * (1 + 2 * rho**2) / count) ** 0.5
    assert abs(float((scaled[:, 1:] * scaled[:, :-1]).mean()) - rho) < 6 * ((1 + 3 * rho**2) / count) ** 0.5
    assert abs(float((scaled[1:] * scaled[:-1]).mean())) < 6 * ((1 + 2 * rho**2) / count) ** 0.5  # of two seeds


def test_one_seed_is_one_network() -> None:
    model, x = tb.to_bayesian(nn.Sequential(nn.Linear(4, 6), nn.Dropout(), nn.Linear(6, 2))), torch.randn(5, 4)
    network = tb.SamplingNetwork(model).train()
    before = torch.get_rng_state()
    one, same, other = (network(x, seed=torch.tensor(seed)) for seed in (3, 3, 4))
    assert torch.equal(one, same)
    assert (one != other).all()
    assert torch.equal(torch.get_rng_state(), before)


def test_every_module_has_normals_of_its_own() -> None:
    layers = nn.Sequential(tb.nn.Linear(3, 3, tau=0.1), tb.nn.Linear(3, 3, tau=0.1))
    layers[1].module.load_state_dict(layers[0].module.state_dict())
    weights = tb.SamplingNetwork(torch.compile(layers)).sample_weights(SEED)
    assert set(weights) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    assert (weights["0.weight"] != weights["1.weight"]).all()


def test_it_is_a_copy() -> None:
    model = tb.to_bayesian(nn.Linear(4, 3))
    network = tb.SamplingNetwork(model)
    before = network.sample_weights(SEED)
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(2)
    assert all(torch.equal(value, before[name]) for name, value in network.sample_weights(SEED).items())
    assert not any(value.requires_grad for value in network.parameters())


def test_too_many_weights_are_refused() -> None:
    source = CountedNormals(SEED)
    source._next = 2**32 - 3
    with pytest.raises(ValueError, match="must have less than 8 billion random weights"):
        source.normals(torch.Size((8,)), torch.zeros(1))


def test_a_seed_that_is_no_tensor_is_refused() -> None:
    network = tb.SamplingNetwork(tb.to_bayesian(nn.Linear(4, 3)))
    with pytest.raises(
        TypeError, match=r"^`seed` \(=3\) must be one number in an int64 tensor; pass e\.g\. torch\.ten"
    ):
        network(torch.ones(2, 4), seed=3)
