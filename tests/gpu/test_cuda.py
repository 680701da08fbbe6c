"""The same library on a GPU: law, training, compilation, prediction, and the caller's state."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

import tribayes as tb
from tests.networks import same_tensors
from tests.posterior.cases import law_of
from tribayes.posterior import Stream
from tribayes.posterior.draw.cuda import seed_number

LOC = torch.tensor([0.5, -2.0, 1e-3, 3.0, -0.7])


def _model() -> tb.BayesianModule:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
    return tb.to_bayesian(net, tau=0.2, rho=-0.2).cuda()


def _images(count: int = 30) -> torch.Tensor:
    return torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(1)).cuda()


@pytest.mark.parametrize("gamma", [-10.0, 0.0, 1.0])
def test_moments_of_draws(gamma: float) -> None:
    """Failure rate below 1e-6: 20 standardised moments, bound 5.6."""
    n = 200_000
    law = law_of(LOC.cuda(), *torch.tensor([-0.5, gamma]).cuda())
    centred = (law.rsample((n,), generator=11) - law.mean).double()
    covariance = law.covariance_matrix.double()
    variance = covariance.diagonal()
    z_mean = centred.mean(0) / (variance / n).sqrt()
    error = ((covariance.square() + variance.outer(variance)) / n).sqrt()
    z_covariance = (centred.T @ centred / n - covariance) / error
    upper = torch.triu_indices(len(LOC), len(LOC))
    assert torch.cat([z_mean, z_covariance[upper[0], upper[1]]]).abs().max() < 5.6


def test_values_and_gradients_equal_the_cpu() -> None:
    results = []
    for device in ("cpu", "cuda"):
        raw = [torch.tensor(value, device=device, requires_grad=True) for value in (LOC.tolist(), -1.0, -2.0)]
        law = law_of(*raw)
        prior = torch.distributions.Normal(torch.zeros((), device=device), torch.ones((), device=device))
        value = law.log_prob(LOC.to(device) * 1.2) + torch.distributions.kl_divergence(law, prior)
        results.append([value.detach().cpu(), *(g.cpu() for g in torch.autograd.grad(value, raw))])
    for cpu, cuda in zip(*results, strict=True):
        torch.testing.assert_close(cpu, cuda, rtol=1e-4, atol=1e-5)


def test_a_model_learns_on_the_gpu() -> None:
    model, images = _model(), _images(200)
    targets = (images.mean((1, 2, 3)) > 0).long()
    elbo = tb.ELBO(tb.Categorical(), data_size=200, kl_weight=0.001)
    optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.05), momentum=0.9)
    history = tb.fit(model, elbo, [(images, targets)] * 100, optimizer, progress=False)
    assert sum(history.nll[-10:]) < 0.5 * sum(history.nll[:10])
    assert all(torch.isfinite(p).all() for p in model.parameters())


# torch's compiler uses what torch has deprecated, and gives advice about speed as it compiles
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_compiled_forward_and_objective() -> None:
    model, images = _model().eval(), _images()
    draw = {name: value.detach() for name, value in model.sample_weights(generator=0).items()}
    compiled = torch.compile(model.apply_weights, fullgraph=True)
    torch.testing.assert_close(compiled(draw, images), model.apply_weights(draw, images), rtol=1e-3, atol=1e-3)
    elbo = tb.ELBO(tb.Categorical(), data_size=30)
    targets = torch.zeros(30, dtype=torch.int64, device="cuda")
    loss = torch.compile(lambda: elbo(model, images, targets).loss, fullgraph=True)()
    loss.backward()
    assert torch.isfinite(loss)
    assert all(p.grad is not None for p in model.family.parameters())


def test_prediction_leaves_the_gpu_as_it_was() -> None:
    model, images = _model(), _images()
    torch.cuda.manual_seed(3)
    random_state = torch.cuda.get_rng_state()
    statistics = model.module[1].running_mean.clone()
    one = tb.predict(model, images, samples=20, progress=False)
    other = tb.predict(model, images.cpu(), samples=20, progress=False, batch_size=7, keep_samples=False)
    assert torch.equal(torch.cuda.get_rng_state(), random_state)
    assert torch.equal(model.module[1].running_mean, statistics)
    assert model.training
    assert one.mean.device.type == "cpu"
    torch.testing.assert_close(one.mean, other.mean, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(one.interval(0.95)[0], other.interval(0.95)[0], rtol=1e-3, atol=1e-4)


def test_autocast_keeps_the_law_in_float32() -> None:
    model, images = _model(), _images()
    with torch.autocast("cuda", torch.bfloat16):
        outputs = model(images)
    assert outputs.dtype == torch.bfloat16
    outputs.float().square().mean().backward()
    assert {p.grad.dtype for p in model.parameters() if p.grad is not None} == {torch.float32}


# what a model draws with


@pytest.mark.parametrize(
    ("family", "dtype", "expected"),
    [
        ("tridiagonal", torch.float32, "triton"),
        ("diagonal", torch.float32, "triton"),
        ("mean_field", torch.float32, "plain"),
        ("tridiagonal", torch.float64, "plain"),
        ("tridiagonal", torch.bfloat16, "plain"),
    ],
)
def test_the_sampler_follows_from_family_and_precision(family: str, dtype: torch.dtype, expected: str) -> None:
    model = tb.to_bayesian(nn.Linear(4, 3), family=family).cuda().to(dtype)
    assert model.sampler == expected
    draw = model.sample_weights(generator=0)
    assert {(value.dtype, value.device.type) for value in draw.values()} == {(dtype, "cuda")}
    assert tb.to_bayesian(nn.Linear(4, 3), family=family).sampler != "triton"


def test_channels_last_is_drawn_by_the_kernels() -> None:
    model = tb.to_bayesian(nn.Conv2d(3, 4, 3)).cuda().to(memory_format=torch.channels_last)
    assert model.sampler == "triton"
    assert model.sample_weights()["weight"].is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("family", ["tridiagonal", "diagonal"])
def test_the_divergence_comes_with_the_draw(family: str) -> None:
    model = tb.to_bayesian(nn.Linear(40, 3), family=family, prior=tb.Prior(scale=0.5)).cuda()
    weights, divergence = model.sample_weights_and_kl(generator=7)
    torch.testing.assert_close(divergence, model.kl(), rtol=1e-5, atol=1e-4)
    assert same_tensors(weights, model.sample_weights(generator=7))
    leaves = list(model.parameters())
    ours, theirs = torch.autograd.grad(divergence, leaves), torch.autograd.grad(model.kl(), leaves)
    for got, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4 * (1 + float(expected.abs().max())))


@pytest.mark.parametrize("implementation", ["triton", "plain"])
@pytest.mark.parametrize("family", ["tridiagonal", "diagonal"])
def test_draws_have_the_mean_and_the_deviation_of_the_law(family: str, implementation: str) -> None:
    # 4,000 draws of 30 weights: a correct sampler fails with probability below 1e-5
    rho = -0.3 if family == "tridiagonal" else 0.0
    model = tb.to_bayesian(nn.Linear(9, 3), family=family, tau=0.3, rho=rho).cuda()
    model.family._implementation = implementation
    with torch.no_grad():
        draws, laws = model.sample_weights(4000, generator=0), model.laws()
        for name, stack in draws.items():
            mean, std = laws[name].mean, laws[name].variance.sqrt()
            flat = stack.reshape(4000, -1)
            assert ((flat.mean(0) - mean).abs() < 5.5 * std / 4000**0.5).all()
            assert ((flat.std(0) / std - 1).abs() < 5.5 / 8000**0.5).all()
            scaled = (flat - mean) / std
            neighbours = (scaled[:, 1:] * scaled[:, :-1]).mean(0)
            assert ((neighbours - rho).abs() < 5.5 * (1 + rho**2) ** 0.5 / 4000**0.5).all()


def test_a_draw_of_a_seed_in_a_tensor_is_that_of_the_number() -> None:
    model = tb.to_bayesian(nn.Linear(3, 4)).cuda()
    expected = model.sample_weights(generator=2**63 - 5)
    seed = torch.tensor([seed_number(Stream((2**63 - 5,)))], device="cuda")
    assert same_tensors(model.sample_weights(generator=seed), expected)


def test_under_autocast_the_draws_come_in_its_dtype() -> None:
    model = _model()
    with torch.autocast("cuda", torch.bfloat16):
        draw = model.sample_weights(generator=1)
        out = model(_images())
    assert {value.dtype for value in draw.values()} == {torch.bfloat16}
    assert out.dtype == torch.bfloat16


def test_copies_and_pickles_draw_the_same() -> None:
    model = _model()
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.sampler == "triton"
        assert same_tensors(twin.sample_weights(generator=3), model.sample_weights(generator=3))
