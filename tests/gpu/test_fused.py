"""The kernels of the fused draw, against the reference in float64 for the very same noise, and by statistics.

Standard normals can be read off a draw itself: with m = 1, τ = 1 and ρ = 0 it is 1 + x_i, and a second draw with ρ > 0
and the same seed gives x_0. So the reference is given the kernels' own noise.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tribayes.posterior.fused import layout, operation, reference
from tribayes.posterior.fused.layout import BLOCK

ONE = math.log(math.e - 1)  # δ of τ = 1


def normals_of(means: list[Tensor], seeds: Tensor) -> list[list[Tensor]]:
    """x_0 … x_K of every tensor for every seed, float64."""
    ones = [torch.ones_like(mean) for mean in means]
    delta = torch.full((len(means),), ONE, device="cuda")
    plain, _ = operation.draw(ones, delta, torch.zeros_like(delta), seeds)
    mixed, _ = operation.draw(ones, delta, torch.full_like(delta, 4.0), seeds)
    t = math.tanh(1.0)
    shrink = 1 / math.hypot(1.0, t)
    rows = []
    for sample in range(len(seeds)):
        row = []
        for a, b in zip(plain, mixed, strict=True):
            x, y = (value[sample].reshape(-1).double() - 1 for value in (a, b))
            full = torch.cat([((y[0] / shrink - x[0]) / t).reshape(1), x])
            torch.testing.assert_close(shrink * (full[1:] + t * full[:-1]), y, rtol=0, atol=1e-5)
            row.append(full)
        rows.append(row)
    return rows


def inputs(
    strided: bool, uniform: bool = False
) -> tuple[list[Tensor], Tensor, Tensor, tuple[list[Tensor], list[Tensor]]]:
    torch.manual_seed(0)
    means = [torch.randn(50, 3), torch.randn(4, 6, 3, 3), torch.randn(5), torch.randn(2 * BLOCK + 3), torch.randn(1)]
    means = [mean.cuda() for mean in means]
    if strided:
        means[1] = means[1].to(memory_format=torch.channels_last)
    delta = torch.tensor([-1.0, 0.3, -3.0, 0.0, 1.0], device="cuda")
    gamma = torch.tensor([-2.0, 0.5, 9.0, 0.0, -10.0], device="cuda")
    locs = [torch.tensor(0.0), torch.randn(216), torch.tensor(0.3), torch.tensor(0.0), torch.tensor(1.0)]
    scales = [torch.tensor(1.0), torch.tensor(0.5), torch.rand(5) + 0.5, torch.tensor(2.0), torch.tensor(1.0)]
    if uniform:
        locs, scales = ([value.mean() for value in values] for values in (locs, scales))
    return means, delta, gamma, ([loc.cuda() for loc in locs], [scale.cuda() for scale in scales])


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("count", [1, 3])
def test_values_and_gradients_are_the_reference_s_for_the_same_noise(strided: bool, uniform: bool, count: int) -> None:
    means, delta, gamma, (locs, scales) = inputs(strided, uniform)
    seeds = torch.arange(count, device="cuda") + 2**40
    normals = normals_of(means, seeds)
    leaves = [leaf.requires_grad_() for leaf in (*means, delta, gamma)]
    doubles = [leaf.detach().double().requires_grad_() for leaf in leaves]
    drawn, divergence = operation.draw(means, delta, gamma, seeds, torch.float32, (locs, scales))
    *wide, wide_delta, wide_gamma = doubles
    exact = torch.stack([reference.draw_given(wide, wide_delta, wide_gamma, row) for row in normals])
    priors = ([loc.double() for loc in locs], [scale.double() for scale in scales])
    exact_divergence, _ = reference.divergence_of(wide, wide_delta, wide_gamma, *priors)
    pieces = operation.unflatten(exact, wide)
    for got, expected in zip(drawn, pieces, strict=True):
        torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(divergence.double(), exact_divergence, rtol=1e-5, atol=1e-3)
    upstream = [torch.randn_like(value) for value in drawn]
    ours = torch.autograd.grad([*drawn, divergence], leaves, [*upstream, torch.tensor(0.4, device="cuda")])
    wide_upstream = [value.double() for value in upstream]
    exact_gradients = torch.autograd.grad(
        [*pieces, exact_divergence], doubles, [*wide_upstream, torch.tensor(0.4, device="cuda").double()]
    )
    for got, expected in zip(ours, exact_gradients, strict=True):
        torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


def test_the_noise_is_standard_normal_and_white() -> None:
    # ten z-scores within ±5: a correct generator fails with probability 6e-6
    x = normals_of([torch.ones(20_000_000, device="cuda")], torch.tensor([1], device="cuda"))[0][0]
    n = len(x)
    scores = [
        float(x.mean()) * math.sqrt(n),
        float(x.square().mean() - 1) * math.sqrt(n / 2),
        float(x.pow(3).mean()) * math.sqrt(n / 15),
        float(x.pow(4).mean() - 3) * math.sqrt(n / 96),
        *(float((x[lag:] * x[:-lag]).mean()) * math.sqrt(n) for lag in (1, 2, 3, 4, BLOCK)),
    ]
    tail = math.erfc(4 / math.sqrt(2))
    scores.append((float((x.abs() > 4).double().mean()) - tail) / math.sqrt(tail / n))
    assert max(abs(score) for score in scores) < 5, scores


def test_tensors_and_seeds_do_not_share_noise() -> None:
    # six correlations of 2,048 pairs within ±5 standard errors: fails by chance with probability 4e-6
    means = [torch.ones(BLOCK, device="cuda"), torch.ones(BLOCK, device="cuda")]
    first, second = normals_of(means, torch.tensor([0, 1], device="cuda"))
    rows = torch.stack([*first, *second])[:, 1:]
    products = (rows @ rows.T / BLOCK - torch.eye(4, device="cuda")).triu(1)
    assert products.abs().max() < 5 / math.sqrt(BLOCK)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_draws_are_the_rounded_ones(dtype: torch.dtype) -> None:
    means, delta, gamma, _ = inputs(False)
    seeds = torch.tensor([4], device="cuda")
    single, _ = operation.draw(means, delta, gamma, seeds)
    half, _ = operation.draw(means, delta, gamma, seeds, dtype)
    assert all(torch.equal(got, want.to(dtype)) for got, want in zip(half, single, strict=True))


def _model() -> tb.BayesianModule:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10))
    return tb.to_bayesian(net, sampler="fused").cuda()


def test_guards_on_the_device_keep_their_bounds() -> None:
    model = _model()
    with torch.no_grad():
        model.module[3].weight.fill_(1e-9)
        model.family.delta.fill_(-20.0)
        model.family.gamma.fill_(0.01)
    tb.stabilise_(model, "paper", generator=1)
    weight = model.module[3].weight
    assert torch.equal(weight.abs(), torch.full_like(weight, 1e-6))
    # 1,440 coins: a share of heads within ±5 standard errors fails by chance with probability 6e-7
    assert abs(float((weight > 0).float().mean()) - 0.5) < 5 * 0.5 / math.sqrt(weight.numel())
    torch.testing.assert_close(model.family.delta, torch.full_like(model.family.delta, -4.600166))
    torch.testing.assert_close(model.family.gamma.abs(), torch.full_like(model.family.gamma, 0.04000533))


def test_a_compiled_model_draws_and_learns() -> None:
    model = _model()
    x = torch.randn(8, 1, 8, 8, device="cuda")
    out = torch.compile(model, fullgraph=True)(x)
    out.sum().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())


def test_capturing_before_a_first_draw_is_refused() -> None:
    model = _model()
    layout._cache._kept.clear()  # an earlier model may have lain at the same addresses
    with pytest.raises(RuntimeError, match="run one first"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        model.sample_weights()
