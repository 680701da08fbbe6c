"""The fused draw on a CPU: the operation torch sees, against the law it must have and autograd's gradients.

The kernels are compared with the same reference in tests/gpu/test_fused.py.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tribayes.posterior import Prior
from tribayes.posterior.draw import draw_raw
from tribayes.posterior.fused import operation, reference

SHAPES = [(4, 3), (2, 3, 5, 5), (7,), (1,)]
SEEDS = torch.tensor([3, 2**61])


def _inputs(dtype: torch.dtype = torch.float64) -> tuple[list[Tensor], Tensor, Tensor]:
    source = torch.Generator().manual_seed(1)
    means = [torch.randn(shape, generator=source, dtype=dtype) for shape in SHAPES]
    delta = torch.tensor([-1.0, 0.3, -3.0, 0.0], dtype=dtype)
    gamma = torch.tensor([-2.0, 0.5, 9.0, 0.0], dtype=dtype)
    return means, delta, gamma


def _prior(dtype: torch.dtype = torch.float64) -> tuple[list[Tensor], list[Tensor]]:
    source = torch.Generator().manual_seed(2)
    locs = [torch.tensor(0.0, dtype=dtype), torch.randn(150, generator=source, dtype=dtype)]
    locs += [torch.tensor(0.3, dtype=dtype), torch.tensor(0.0, dtype=dtype)]
    scales = [torch.tensor(1.0, dtype=dtype), torch.tensor(0.5, dtype=dtype)]
    scales += [torch.rand(7, generator=source, dtype=dtype) + 0.5, torch.tensor(2.0, dtype=dtype)]
    return locs, scales


def test_each_tensor_is_drawn_from_the_law() -> None:
    means, delta, gamma = _inputs()
    drawn, _ = operation.draw(means, delta, gamma, SEEDS, torch.float64)
    for row, seed in enumerate(SEEDS):
        normals = reference.normals_of([mean.numel() for mean in means], seed)
        for stack, mean, d, g, x in zip(drawn, means, delta, gamma, normals, strict=True):
            expected = draw_raw(mean.reshape(-1), d, g, x.double()).reshape(mean.shape)
            torch.testing.assert_close(stack[row], expected, rtol=1e-13, atol=1e-15)


def test_gradients_are_those_of_autograd_through_the_same_noise() -> None:
    leaves = [
        leaf.requires_grad_() for group in _inputs() for leaf in ([group] if isinstance(group, Tensor) else group)
    ]
    *means, delta, gamma = leaves
    drawn, divergence = operation.draw(means, delta, gamma, SEEDS, torch.float64, _prior())
    sizes = [mean.numel() for mean in means]
    plain = torch.stack([reference.draw_given(means, delta, gamma, reference.normals_of(sizes, s)) for s in SEEDS])
    plain_divergence, _ = reference.divergence_of(means, delta, gamma, *_prior())
    torch.testing.assert_close(divergence, plain_divergence)
    ours = sum(stack.pow(3).sum() for stack in drawn) + 0.7 * divergence
    theirs = plain.pow(3).sum() + 0.7 * plain_divergence
    for got, expected in zip(torch.autograd.grad(ours, leaves), torch.autograd.grad(theirs, leaves), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-12)


def test_the_divergence_is_the_sum_of_the_registered_ones() -> None:
    from torch.distributions import Normal, kl_divergence

    from tribayes.posterior import TridiagonalNormal

    means, delta, gamma = _inputs()
    _, divergence = operation.draw(means, delta, gamma, SEEDS, torch.float64, _prior())
    each = [
        kl_divergence(TridiagonalNormal.from_raw(mean.reshape(-1), d, g), Normal(loc, scale))
        for mean, d, g, loc, scale in zip(means, delta, gamma, *_prior(), strict=True)
    ]
    torch.testing.assert_close(divergence, torch.stack(each).sum(), rtol=1e-12, atol=1e-12)


def test_the_order_of_memory_does_not_change_the_law() -> None:
    means, delta, gamma = _inputs()
    strided = [mean.to(memory_format=torch.channels_last) if mean.ndim == 4 else mean for mean in means]
    assert not strided[1].is_contiguous()
    results = []
    for tensors in (means, strided):
        leaves = [tensor.detach().requires_grad_() for tensor in tensors]
        drawn, divergence = operation.draw(leaves, delta, gamma, SEEDS, torch.float64, _prior())
        weights = torch.arange(150.0).reshape(2, 3, 5, 5).double()
        gradient = torch.autograd.grad((drawn[1] * weights).sum() + divergence, leaves[1])[0]
        results.append((drawn[1], gradient))
    (drawn, gradient), (drawn_strided, gradient_strided) = results
    assert torch.equal(drawn, drawn_strided)
    torch.testing.assert_close(gradient, gradient_strided, rtol=1e-12, atol=1e-12)
    assert drawn_strided[0].is_contiguous(memory_format=torch.channels_last)


def test_a_draw_is_a_function_of_its_seed() -> None:
    means, delta, gamma = _inputs()
    both, _ = operation.draw(means, delta, gamma, SEEDS, torch.float64)
    alone, _ = operation.draw(means, delta, gamma, SEEDS[1:], torch.float64)
    for stack, single in zip(both, alone, strict=True):
        assert torch.equal(stack[1], single[0])
        assert (stack[0] != stack[1]).all()


def test_torch_finds_nothing_wrong_with_the_operation() -> None:
    means, delta, gamma = _inputs(torch.float32)
    leaves = [mean.requires_grad_() for mean in means]
    arguments = (leaves, delta.requires_grad_(), gamma.requires_grad_(), *_prior(torch.float32), SEEDS, torch.float32)
    torch.library.opcheck(torch.ops.tribayes.draw.default, arguments)


def test_vmap_over_seeds_is_the_loop() -> None:
    means, delta, gamma = _inputs()
    seeds = torch.tensor([[1], [2], [5]])
    mapped = torch.func.vmap(lambda s: operation.draw(means, delta, gamma, s, torch.float64)[0])(seeds)
    looped = [operation.draw(means, delta, gamma, s, torch.float64)[0] for s in seeds]
    for number, stack in enumerate(mapped):
        assert torch.equal(stack, torch.stack([one[number] for one in looped]))


def test_vmap_over_anything_else_is_refused() -> None:
    means, delta, gamma = _inputs()
    with pytest.raises(NotImplementedError, match="batched over its seeds only"):
        torch.func.vmap(lambda d: operation.draw(means, d, gamma, SEEDS)[0])(torch.stack([delta, delta]))


def test_it_compiles_and_exports_as_one_node() -> None:
    means, delta, gamma = _inputs(torch.float32)

    class Drawn(torch.nn.Module):
        def forward(self, d: Tensor, seeds: Tensor) -> list[Tensor]:
            return operation.draw(means, d, gamma, seeds)[0]

    expected = Drawn()(delta, SEEDS)
    compiled = torch.compile(Drawn(), fullgraph=True, backend="aot_eager")(delta, SEEDS)
    program = torch.export.export(Drawn(), (delta, SEEDS))
    for results in (compiled, program.module()(delta, SEEDS)):
        assert all(torch.equal(got, want) for got, want in zip(results, expected, strict=True))
    names = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert names.count(torch.ops.tribayes.draw.default) == 1
    torch._dynamo.reset()


def test_a_second_derivative_is_refused_and_not_zero() -> None:
    means, delta, gamma = _inputs()
    delta.requires_grad_()
    drawn, _ = operation.draw(means, delta, gamma, SEEDS, torch.float64)
    (gradient,) = torch.autograd.grad(drawn[0].pow(2).sum(), delta, create_graph=True)
    with pytest.raises(RuntimeError):
        gradient.sum().backward()


def test_a_prior_is_what_the_model_hands_over() -> None:
    prior = Prior(loc=0.5, scale=2.0).resolve("w", torch.ones(3))
    means = [torch.ones(3)]
    _, divergence = operation.draw(
        means, torch.zeros(1), torch.zeros(1), SEEDS, torch.float32, ([prior.loc], [prior.scale])
    )
    tau = torch.log(torch.tensor(2.0))
    # by hand: three independent N(1, τ²) against N(½, 4)
    expected = 3 * (torch.log(2 / tau) + (tau**2 + 0.25) / 8 - 0.5)
    torch.testing.assert_close(divergence, expected)
