"""The same library on a GPU: law, training, compilation, prediction, and the caller's state."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tribayes as tb
from tribayes.posterior import TridiagonalNormal

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
    law = TridiagonalNormal.from_raw(LOC.cuda(), *torch.tensor([-0.5, gamma]).cuda())
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
        law = TridiagonalNormal.from_raw(*raw)
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
