"""Where the posterior starts: τ, ρ and priors by name pattern, and means that start at zero."""

import pytest
import torch
from torch import nn
from torch.distributions import MultivariateNormal, kl_divergence

import tribayes as tb
from tests.networks import any_family, any_network, bayesian
from tribayes.posterior.prior import BestScale


def values(model: tb.BayesianModule, column: str) -> dict[str, float]:
    return {name: row[column] for name, row in model.posterior().as_dict().items()}


@any_network
def test_the_defaults_are_a_twentieth_and_no_correlation(name: str) -> None:
    model = tb.to_bayesian(bayesian(name).module)
    assert values(model, "tau") == pytest.approx(dict.fromkeys(model.random_names, 0.05), rel=1e-14)
    assert set(values(model, "rho").values()) == {0.0}


def test_tau_and_rho_are_set_by_pattern_and_the_first_match_counts() -> None:
    model = bayesian("MLP", tau={"0.bias": 0.01, "*bias": 0.02, "0.*": 0.2}, rho={"2.weight": -0.4, "*weight": 0.499})
    expected_tau = {"0.weight": 0.2, "0.bias": 0.01, "2.weight": 0.05, "2.bias": 0.02}
    expected_rho = {"0.weight": 0.499, "0.bias": 0.0, "2.weight": -0.4, "2.bias": 0.0}
    assert values(model, "tau") == pytest.approx(expected_tau, rel=1e-14)
    assert values(model, "rho") == pytest.approx(expected_rho, rel=1e-14)


def test_mean_field_starts_at_tau_times_the_root_mean_square() -> None:
    model = bayesian("MLP", family="mean_field", tau=0.1)
    laws = model.laws()
    for name, mean in model.means():
        scale = laws[name].stddev
        expected = 0.1 * mean.detach().square().mean().sqrt()
        torch.testing.assert_close(scale, expected.expand_as(scale), rtol=1e-12, atol=0)


@pytest.mark.parametrize("tau", [1e-4, 0.05, 3.0, 50.0])
@pytest.mark.parametrize("rho", [-0.4999, 0.0, 1e-6, 0.3])
def test_float32_keeps_the_values_it_was_given(tau: float, rho: float) -> None:
    model = tb.to_bayesian(nn.Linear(2, 2), tau=tau, rho=rho)
    # δ and γ are rounded once, which a magnitude of 10 turns into some 10 units in the last place of τ and ρ
    assert values(model, "tau")["weight"] == pytest.approx(tau, rel=1e-6)
    assert values(model, "rho")["weight"] == pytest.approx(rho, rel=1e-6)


def gaussian_divergence(model: tb.BayesianModule, loc: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """KL of the weight's posterior to N(loc, diag scale²), by torch's dense formula."""
    law = model.laws()["weight"]
    prior = MultivariateNormal(loc.flatten(), torch.diag(scale.flatten().square()))
    return kl_divergence(MultivariateNormal(law.mean, law.covariance_matrix), prior)


def test_a_prior_may_be_a_number_a_tensor_or_the_pretrained_weights() -> None:
    torch.manual_seed(0)
    net = nn.Linear(3, 2, bias=False).double()
    weight = net.weight.detach().clone()
    loc, scale = torch.randn(2, 3).double(), torch.rand(2, 3).double() + 0.5
    for prior, mean, deviation in [
        (tb.Prior(), torch.zeros_like(weight), torch.ones_like(weight)),
        (tb.Prior(loc=0.3, scale=2.0), torch.full_like(weight, 0.3), torch.full_like(weight, 2.0)),
        (tb.Prior(loc=loc, scale=scale), loc, scale),
        (tb.Prior(loc="pretrained", scale=0.1), weight, torch.full_like(weight, 0.1)),
        (tb.Prior(loc=torch.tensor(0.3), scale=scale), torch.full_like(weight, float(torch.tensor(0.3))), scale),
    ]:
        model = tb.to_bayesian(net, prior=prior, tau=0.2, rho=0.3)
        expected = gaussian_divergence(model, mean, deviation)
        torch.testing.assert_close(model.kl(), expected, rtol=1e-11, atol=1e-11)


def test_priors_are_set_by_pattern() -> None:
    priors = {"2.weight": tb.Prior(loc="pretrained", scale=0.05), "*weight": tb.Prior(scale=0.2), "0.bias": tb.Prior()}
    model = bayesian("MLP", prior=priors)
    fitted = dict(zip(model.random_names, model.priors, strict=True))
    assert torch.equal(fitted["2.weight"].loc, model.module[2].weight.flatten())
    scales = {name: prior.scale.item() for name, prior in fitted.items() if name != "2.bias"}
    assert scales == {"0.weight": 0.2, "0.bias": 1.0, "2.weight": 0.05}
    assert isinstance(fitted["2.bias"], BestScale)  # the default, where no pattern matches


def test_the_pretrained_prior_stays_where_the_weights_were_at_conversion() -> None:
    net = nn.Linear(2, 2)
    nn.init.zeros_(net.bias)
    model = tb.to_bayesian(net, prior=tb.Prior(loc="pretrained"))
    weight = net.weight.detach().clone()
    with torch.no_grad():
        net.weight.add_(1.0)
    assert torch.equal(model.priors[0].loc, weight.flatten())
    assert torch.equal(model.priors[1].loc, torch.zeros(2))  # not the ±1e-6 that the mean was moved to


def zeros_among_ones(size: int) -> nn.Linear:
    net = nn.Linear(size, 2, bias=False)
    with torch.no_grad():
        net.weight[0] = 0.0
        net.weight[1] = 1.0
    return net


def test_zeros_start_at_the_smallest_magnitude_with_a_fair_random_sign() -> None:
    # Failure rate: the count of plus signs is Binomial(10 000, ½); five standard deviations, 6e-7.
    # If it fails with another seed as well, the coin is not fair.
    net = zeros_among_ones(10_000)
    tb.to_bayesian(net, generator=0)
    assert torch.equal(net.weight[0].abs(), torch.full((10_000,), 1e-6))
    assert torch.equal(net.weight[1], torch.ones(10_000))
    assert abs(int((net.weight[0] > 0).sum()) - 5_000) < 250


def test_the_signs_follow_the_seed_and_differ_between_tensors() -> None:
    def signs(seed: int) -> list[torch.Tensor]:
        net = nn.Sequential(zeros_among_ones(50), zeros_among_ones(50))
        tb.to_bayesian(net, generator=seed)
        return [layer.weight[0].sign() for layer in net]

    one, other = signs(0)
    assert torch.equal(one, signs(0)[0])
    assert not torch.equal(one, other)
    assert not torch.equal(one, signs(1)[0])


@any_family
def test_only_noise_that_scales_with_the_mean_needs_means_off_zero(family: str) -> None:
    net = zeros_among_ones(5)
    tb.to_bayesian(net, family=family)
    assert bool(net.weight.all()) == (family != "mean_field")


def test_the_posterior_prints_as_a_table() -> None:
    model = bayesian("Conv2d", tau=0.1, rho={"head.weight": -0.25})
    assert str(model.posterior()) == (
        "tensor       shape     K    tau     rho\n"
        "-----------  -------  --  -----  ------\n"
        "body.weight  4×1×3×3  36  0.100   0.000\n"
        "body.bias    4         4  0.100   0.000\n"
        "head.weight  2×16     32  0.100  -0.250\n"
        "head.bias    2         2  0.100   0.000"
    )
    assert [row.name for row in model.posterior()] == list(model.random_names)
    assert len(model.posterior()) == 4


def test_patterns_find_a_tied_weight_by_any_of_its_names() -> None:
    net = nn.Module()
    net.embedding, net.decoder = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
    net.decoder.weight = net.embedding.weight
    assert values(tb.to_bayesian(net, tau={"decoder.*": 0.2}), "tau") == {"embedding.weight": pytest.approx(0.2)}
