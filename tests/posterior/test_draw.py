"""The draw: its hand-written backward against autograd, and its law by identity and by statistics.

The statistical tests are seeded. Each states its failure rate, the probability that a correct sampler fails for a
fresh seed. If one fails after a change that reorders random numbers, it may be given one new seed, not two.
"""

from __future__ import annotations

import pytest
import torch

from tribayes.posterior import FactorisedNormal, TridiagonalNormal, tridiagonal
from tribayes.posterior.draw import draw, draw_raw

LOC = torch.tensor([0.5, -2.0, 1e-3, 3.0, -0.7], dtype=torch.float64)


def _plain(loc, current, previous, normals):
    """The same draw left to autograd."""
    noise = current.unsqueeze(-1) * normals[..., 1:] + previous.unsqueeze(-1) * normals[..., :-1]
    return loc + loc.abs() * noise


def _inputs(batch=(), sample=()):
    generator = torch.Generator().manual_seed(5)
    loc = torch.randn(*batch, 6, dtype=torch.float64, generator=generator).requires_grad_()
    current = (torch.rand(batch, dtype=torch.float64, generator=generator) + 0.1).requires_grad_()
    previous = (torch.rand(batch, dtype=torch.float64, generator=generator) - 0.5).requires_grad_()
    normals = torch.randn(*sample, *batch, 7, dtype=torch.float64, generator=generator)
    return loc, current, previous, normals


SHAPES = pytest.mark.parametrize(("batch", "sample"), [((), ()), ((), (4,)), ((3,), ()), ((3,), (2, 4))])


@SHAPES
def test_draw_equals_autograd_values_and_gradients(batch, sample):
    inputs = _inputs(batch, sample)
    ours, plain = draw(*inputs), _plain(*inputs)
    torch.testing.assert_close(ours, plain, rtol=1e-13, atol=1e-15)
    upstream = torch.randn_like(plain)
    for our, their in zip(
        torch.autograd.grad(ours, inputs[:3], upstream),
        torch.autograd.grad(plain, inputs[:3], upstream),
        strict=True,
    ):
        torch.testing.assert_close(our, their, rtol=1e-12, atol=1e-14)


def test_draw_passes_gradcheck_twice():
    inputs = _inputs((2,), (3,))
    assert torch.autograd.gradcheck(draw, inputs)
    assert torch.autograd.gradgradcheck(draw, inputs)


@pytest.mark.parametrize("gamma", [0.0, -3.0, 10.0])
@pytest.mark.parametrize("sample", [(), (4,)])
def test_draw_from_raw_numbers_equals_autograd(gamma, sample):
    loc, _, _, normals = _inputs((), sample)
    raw = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (-0.7, gamma)]
    t = torch.tanh(raw[1] / 4)
    current = torch.log1p(raw[0].exp()) / torch.sqrt(1 + t * t)
    ours, plain = draw_raw(loc, *raw, normals), _plain(loc, current, t * current, normals)
    torch.testing.assert_close(ours, plain, rtol=1e-13, atol=1e-15)
    upstream = torch.randn_like(plain)
    for our, their in zip(
        torch.autograd.grad(ours, [loc, *raw], upstream),
        torch.autograd.grad(plain, [loc, *raw], upstream),
        strict=True,
    ):
        torch.testing.assert_close(our, their, rtol=1e-12, atol=1e-14)


def test_draw_from_raw_numbers_passes_gradcheck_twice():
    loc, _, _, normals = _inputs((), (3,))
    raw = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (-0.7, -2.0)]
    assert torch.autograd.gradcheck(draw_raw, (loc, *raw, normals))
    assert torch.autograd.gradgradcheck(draw_raw, (loc, *raw, normals))


def test_draw_from_raw_numbers_is_the_general_draw_where_values_cannot_be_read():
    loc, _, _, _ = (value.detach() for value in _inputs())
    normals = torch.randn(4, 7, dtype=torch.float64)
    raw = torch.tensor([[-0.7, 1.0], [0.3, -2.0], [1.0, 0.0], [-4.0, 9.0]], dtype=torch.float64)
    mapped = torch.func.vmap(lambda pair, x: draw_raw(loc, pair[0], pair[1], x))(raw, normals)
    looped = torch.stack([draw_raw(loc, *pair, x) for pair, x in zip(raw, normals, strict=True)])
    torch.testing.assert_close(mapped, looped, rtol=1e-13, atol=1e-15)


def test_draw_under_vmap_and_func_grad_equals_the_loop():
    loc, current, previous, _ = (value.detach() for value in _inputs())
    normals = torch.randn(4, 7, dtype=torch.float64)

    def loss(current, x):
        return draw(loc, current, previous, x).square().sum()

    batched = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(current, normals)
    looped = torch.stack([torch.func.grad(loss)(current, x) for x in normals])
    torch.testing.assert_close(batched, looped, rtol=1e-13, atol=0)


@pytest.mark.parametrize("gamma", [-10.0, -1.0, 0.0, 10.0])
def test_the_covariance_of_a_draw_is_sigma_as_an_identity(gamma, monkeypatch):
    """A draw is m + F x with F of size K × (K + 1); F is read off unit vectors, and F Fᵀ = Σ to rounding."""
    law = TridiagonalNormal.from_raw(LOC, *torch.tensor([0.2, gamma], dtype=torch.float64))
    units = torch.eye(LOC.numel() + 1, dtype=torch.float64)
    monkeypatch.setattr(tridiagonal, "standard_normals", lambda *_: units)
    factor = (law.rsample((LOC.numel() + 1,)) - LOC).T
    expected = law.covariance_matrix
    torch.testing.assert_close(factor @ factor.T, expected, rtol=0, atol=1e-15 * expected.max().item())


@pytest.mark.parametrize(
    "law",
    [TridiagonalNormal(LOC, 0.4, -0.45), TridiagonalNormal(LOC, 1.5, 0.3), FactorisedNormal(LOC, LOC.abs())],
    ids=["negative", "positive", "factorised"],
)
def test_moments_of_draws(law):
    """Failure rate below 1e-6: 20 standardised moments, each two-sided normal, bound 5.6 (2·20·Φ(−5.6) = 4e-7)."""
    n = 200_000
    draws = law.rsample((n,), generator=11)
    covariance = law.covariance_matrix if isinstance(law, TridiagonalNormal) else torch.diag(law.variance)
    variance = covariance.diagonal()
    centred = draws - law.mean
    z_mean = centred.mean(0) / (variance / n).sqrt()
    error = (covariance.square() + variance.outer(variance)) / n  # of an entry of the empirical covariance
    z_covariance = (centred.T @ centred / n - covariance) / error.sqrt()
    upper = torch.triu_indices(len(LOC), len(LOC))
    z = torch.cat([z_mean, z_covariance[upper[0], upper[1]]])
    assert z.numel() == 20
    assert z.abs().max() < 5.6


def test_draws_come_from_the_seed_or_the_generator():
    law = TridiagonalNormal(LOC, 0.4, -0.45)
    seeded = law.rsample((2,), generator=3)
    assert torch.equal(seeded, law.rsample((2,), generator=3))
    assert torch.equal(seeded, law.rsample((2,), generator=torch.Generator().manual_seed(3)))
    assert not torch.equal(seeded, law.rsample((2,), generator=4))
    torch.manual_seed(3)
    assert torch.equal(seeded, law.rsample((2,)))
    with pytest.raises(TypeError, match=r"`generator` \(='3'\) must be a torch.Generator, an integer seed or None"):
        law.rsample(generator="3")


def test_a_mean_of_zero_gets_a_finite_gradient():
    """Not a legal mean (the divergence is infinite there), but a network must survive meeting one."""
    loc = torch.zeros(3, requires_grad=True)
    draw(loc, torch.tensor(0.1), torch.tensor(0.2), torch.randn(4)).sum().backward()
    assert torch.equal(loc.grad, torch.ones(3))
