"""A draw and its divergence together: the numbers of both apart, to all derivatives, and only where it can be."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tribayes.nn.joint import joint_draw_of

PRIORS = {
    "standard": None,
    "scalar": tb.Prior(loc=0.3, scale=0.5),
    "a scale alone": tb.Prior(scale=0.5),
    "a scale a weight": {"0.weight": tb.Prior(scale=torch.rand(4, 3) + 0.5)},
    "pretrained": tb.Prior(loc="pretrained", scale=0.1),
}


def _model(family: str = "tridiagonal", prior: object = None, rho: float = -0.3) -> tb.BayesianModule:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    return tb.to_bayesian(net, family=family, prior=prior, tau=0.4, rho=rho if family == "tridiagonal" else 0.0)


def _apart(model: tb.BayesianModule) -> tuple[dict[str, Tensor], Tensor]:
    return model.sample_weights(generator=5), model.kl()


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
@pytest.mark.parametrize("family", ["tridiagonal", "diagonal"])
def test_values_and_gradients_are_those_of_both_apart(family: str, prior: object) -> None:
    model = _model(family, prior)
    leaves = list(model.parameters())
    results = []
    for weights, divergence in (model.sample_weights_and_kl(generator=5), _apart(model)):
        loss = sum(value.pow(3).sum() for value in weights.values()) + 0.7 * divergence
        results.append((weights, divergence, torch.autograd.grad(loss, leaves)))
    (ours, divergence, gradients), (apart, plain_divergence, plain_gradients) = results
    for name, value in apart.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-13, atol=1e-15)
    torch.testing.assert_close(divergence, plain_divergence, rtol=1e-12, atol=1e-12)
    for got, expected in zip(gradients, plain_gradients, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("rho", [0.0, 0.49, -0.4999])
def test_the_ends_of_the_correlation_are_ordinary(rho: float) -> None:
    model = _model(rho=rho)
    leaves = list(model.parameters())
    ours = torch.autograd.grad(model.sample_weights_and_kl(generator=5)[1], leaves)
    for got, expected in zip(ours, torch.autograd.grad(model.kl(), leaves), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-10)


def test_second_derivatives_are_those_of_both_apart() -> None:
    model = _model(prior=tb.Prior(loc=0.2, scale=0.7))
    leaves = list(model.parameters())
    hessians = []
    for weights, divergence in (model.sample_weights_and_kl(generator=5), _apart(model)):
        loss = sum(value.pow(3).sum() for value in weights.values()) + 0.7 * divergence
        first = torch.autograd.grad(loss, leaves, create_graph=True)
        hessians.append(torch.autograd.grad(sum(slope.pow(2).sum() for slope in first), leaves))
    for got, expected in zip(*hessians, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


def test_a_weight_without_a_gradient_gets_its_share_of_the_divergence() -> None:
    model = _model()
    weights, divergence = model.sample_weights_and_kl(generator=5)
    (weights["0.bias"].sum() + divergence).backward()
    for _, mean in model.means():
        assert mean.grad is not None
        assert (mean.grad != 0).all()


def test_a_frozen_mean_stays_without_a_gradient() -> None:
    net = nn.Linear(3, 2)
    net.weight.requires_grad_(False)
    model = tb.to_bayesian(net, where="*")
    weights, divergence = model.sample_weights_and_kl(generator=5)
    (weights["weight"].sum() + divergence).backward()
    assert net.weight.grad is None
    assert net.bias.grad is not None


@pytest.mark.parametrize("samples", [1, 2])
def test_the_objective_is_that_of_both_apart(samples: int) -> None:
    model = _model()
    x, y = torch.randn(6, 3).double(), torch.randint(0, 2, (6,))
    elbo = tb.ELBO(tb.Categorical(), data_size=10, samples=samples)
    torch.manual_seed(3)
    terms = elbo(model, x, y)
    torch.manual_seed(3)
    outputs = [model(x) for _ in range(samples)]
    nll = torch.stack([nn.functional.cross_entropy(out, y) for out in outputs]).mean()
    torch.testing.assert_close(terms.nll, nll, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(terms.kl, model.kl(), rtol=1e-12, atol=1e-12)


def test_where_it_cannot_be_both_are_computed_apart() -> None:
    mixed = tb.to_bayesian(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1).double()))
    assert joint_draw_of(mixed, None) is None
    weights, divergence = mixed.sample_weights_and_kl(generator=1)
    assert weights["1.weight"].dtype == torch.float64
    torch.testing.assert_close(divergence, mixed.kl())
    assert joint_draw_of(_model("mean_field"), None) is None


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own, while it traces
def test_under_vmap_and_compilation_both_are_computed_apart() -> None:
    model = _model()
    shifts = torch.tensor([0.0, 1.0], dtype=torch.float64)
    mapped = torch.func.vmap(lambda shift: model.sample_weights_and_kl()[1] + shift, randomness="different")(shifts)
    torch.testing.assert_close(mapped, model.kl() + shifts, rtol=1e-12, atol=1e-12)
    compiled = torch.compile(lambda: model.sample_weights_and_kl()[1], fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(), model.kl(), rtol=1e-12, atol=1e-12)
    torch._dynamo.reset()
