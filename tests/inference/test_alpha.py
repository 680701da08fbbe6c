"""The α-divergence objective: the ELBO at one end, the averaged network at the other, and a closed form between."""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.networks import any_family, bayesian, inputs_of
from tribayes.inference.alpha import alpha_energy

LABELS = torch.tensor([0, 1, 1])
Kind = type[tb.ELBO]


def terms_and_gradients(objective: tb.ELBO, family: str = "tridiagonal") -> tuple[Tensor, list[Tensor]]:
    """Of one batch, under the draws of seed 3."""
    model = bayesian("MLP", family=family)
    terms = objective(model, inputs_of("MLP"), LABELS, generator=3)
    terms.loss.backward()
    return torch.stack(terms[:3]).detach(), [p.grad for p in model.parameters()]


@any_family
@pytest.mark.parametrize("estimator", ["plain", "local", "antithetic"])
@pytest.mark.parametrize("alpha", [0.0, 1e-13])
def test_a_vanishing_alpha_is_the_elbo(family: str, estimator: str, alpha: float) -> None:
    options = {"data_size": 12, "samples": 4, "estimator": estimator}
    ours = terms_and_gradients(tb.AlphaELBO(tb.Categorical(), alpha=alpha, **options), family)
    elbo = terms_and_gradients(tb.ELBO(tb.Categorical(), **options), family)
    torch.testing.assert_close(ours, elbo, rtol=1e-11, atol=1e-13)


def test_alpha_of_one_is_the_likelihood_of_the_averaged_network() -> None:
    model = bayesian("MLP")
    terms = tb.AlphaELBO(tb.Categorical(), data_size=12, alpha=1.0, samples=5)(model, inputs_of("MLP"), LABELS)
    averaged = terms.outputs.softmax(-1).mean(0)[torch.arange(3), LABELS]
    torch.testing.assert_close(terms.nll, -averaged.log().mean(), rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("alpha", [1e-6, 0.3, 1.0, 4.0])
def test_the_energy_is_its_formula(alpha: float) -> None:
    nll = torch.rand(6, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64).mul(5).requires_grad_()
    formula = -(torch.logsumexp(-alpha * nll, 0) - math.log(6)) / alpha
    torch.testing.assert_close(alpha_energy(nll, alpha), formula, rtol=1e-9, atol=0.0)
    torch.autograd.gradcheck(lambda value: alpha_energy(value, alpha), [nll])


def test_far_likelihoods_and_small_powers_keep_their_digits() -> None:
    far = torch.tensor([[0.0], [1e4], [3e5]], requires_grad=True)  # exp(−3e5) is nothing in float32
    energy = alpha_energy(far, 1.0)
    energy.sum().backward()
    torch.testing.assert_close(energy.detach(), torch.tensor([math.log(3)]))
    torch.testing.assert_close(far.grad, torch.tensor([[1.0], [0.0], [0.0]]))
    near = torch.tensor([[1.0], [1.5]])
    torch.testing.assert_close(alpha_energy(near, 1e-7), torch.tensor([1.25]), rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("alpha", [0.25, 0.5, 1.0])
def test_in_a_conjugate_model_it_has_a_closed_form(alpha: float) -> None:
    """One weight, y ~ N(w, σ²), w ~ N(m, s²): E p(y|w)^α = (2πσ²)^(−α/2) √(2πσ²/α) N(y; m, s² + σ²/α).

    By 5,000 draws, seed 0; beyond 6 standard errors with probability 2e-9.
    """
    m, tau, sigma, y = 1.5, 0.4, 0.7, torch.tensor([[0.8]], dtype=torch.float64)
    net = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(net.weight, m)
    model = tb.to_bayesian(net, tau=tau, prior=tb.Prior())
    spread = torch.distributions.Normal(m, math.sqrt((tau * m) ** 2 + sigma**2 / alpha))
    log_mean = spread.log_prob(y).item() + 0.5 * math.log(2 * math.pi * sigma**2) * (1 - alpha) - 0.5 * math.log(alpha)
    draws = 5000
    outputs = model.laws()["weight"].rsample((draws,), generator=0).reshape(draws, 1, 1).detach()
    objective = tb.AlphaELBO(tb.Gaussian(noise=sigma).double(), data_size=1, alpha=alpha, samples=2)
    found = objective.data_term(outputs, y).item()
    powers = torch.distributions.Normal(outputs.flatten(), sigma).log_prob(y.flatten()).mul(alpha).exp()
    error = (powers.std() / powers.mean() / math.sqrt(draws) / alpha).item()
    assert abs(found + log_mean / alpha) < 6 * error
    assert error < 0.03


def test_it_trains_and_a_learned_noise_learns_with_it() -> None:
    torch.manual_seed(0)
    model, noise = tb.to_bayesian(nn.Linear(4, 2)), tb.Gaussian(noise=1.0, learned=True)
    objective = tb.AlphaELBO(noise, data_size=3, samples=4)
    optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.05, likelihood=noise))
    data = [(inputs_of("MLP").float(), torch.ones(3, 2))] * 100
    history = tb.fit(model, objective, data, optimizer, generator=0, progress=False)
    assert history.nll[-1] < history.nll[0] - 0.5
    assert noise.noise.item() < 0.9


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        (
            {"samples": 1},
            ValueError,
            "`samples` (=1) must be at least 2; the expectation of a power needs several draws.",
        ),
        ({"alpha": -0.5}, ValueError, "`alpha` (=-0.5) must be finite and not negative; 0 is the ELBO, 1 the"),
        ({"alpha": math.inf}, ValueError, "`alpha` (=inf) must be finite and not negative; 0 is the ELBO, 1 the"),
        ({"alpha": "half"}, TypeError, "`alpha` (='half') must be a number; 0 is the ELBO, 1 the likelihood of the"),
        ({"data_size": None}, ValueError, "`data_size` (=None) must be given; pass the number of training examples"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, object], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match="^" + re.escape(text)):
        tb.AlphaELBO(tb.Categorical(), **{"data_size": 12, **options})


def test_of_an_answer_the_part_that_counts_is_chosen_and_kept_as_by_the_elbo() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"inputs": x, "scores": self.layer(x)}

    model, x = tb.to_bayesian(Pair()), torch.randn(5, 4)
    objective = tb.AlphaELBO(tb.Categorical(), data_size=5, samples=2, output="scores")
    assert objective(model, x, torch.arange(5) % 3).outputs.shape == (2, 5, 3)
    assert tb.predict(model, x, 2, progress=False).mean.shape == (5, 3)


def test_it_says_what_it_is() -> None:
    objective = tb.AlphaELBO(tb.Categorical(), data_size=12, kl_weight=1.0, samples=3)
    assert "alpha=0.5, data_size=12, kl_weight=1.0, samples=3, estimator='plain'" in repr(objective)
