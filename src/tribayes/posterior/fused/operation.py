"""The fused draw as an operation of torch: known to autograd, torch.compile, torch.export, vmap and CUDA graphs."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from tribayes._errors import refusal
from tribayes.posterior.fused import reference
from tribayes.posterior.guards import rule_of


def _implementation(delta: Tensor) -> ModuleType:
    """Kernels on a GPU, plain torch on a CPU; anything else is refused."""
    if delta.is_cuda:
        from tribayes.posterior.fused import launch  # Triton is imported where there is a GPU only

        return launch
    if delta.is_cpu:
        return reference
    raise refusal("device", str(delta.device), "be a CPU or a CUDA device", 'use sampler="torch"')


@torch.library.custom_op("tribayes::draw", mutates_args=())
def _draw(
    means: list[Tensor],
    delta: Tensor,
    gamma: Tensor,
    locs: list[Tensor],
    scales: list[Tensor],
    seeds: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    return _implementation(delta).draw(means, delta, gamma, locs, scales, seeds, dtype)


@torch.library.custom_op("tribayes::draw_backward", mutates_args=())
def _draw_backward(
    grad: Tensor,
    grad_kl: Tensor,
    means: list[Tensor],
    delta: Tensor,
    gamma: Tensor,
    locs: list[Tensor],
    scales: list[Tensor],
    seeds: Tensor,
    relative: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    return _implementation(delta).backward(grad, grad_kl, means, delta, gamma, locs, scales, seeds, relative)


@torch.library.custom_op("tribayes::guard_", mutates_args=("means", "delta", "gamma"))
def guard_(means: list[Tensor], delta: Tensor, gamma: Tensor | None, seed: Tensor, rule: str) -> None:
    """The guards called `rule` (guards.py), in place; `seed` (1,) int64 throws the coins, where there are any."""
    _implementation(delta).guard_(means, delta, gamma, seed, rule_of(rule))


@_draw.register_fake
def _(means: Any, delta: Tensor, gamma: Tensor, locs: Any, scales: Any, seeds: Tensor, dtype: torch.dtype) -> Any:
    del gamma, scales
    total = sum(mean.numel() for mean in means)
    drawn = delta.new_empty((seeds.shape[0], total), dtype=dtype)
    return drawn, delta.new_empty(()), delta.new_empty(len(means) if locs else 0)


@_draw_backward.register_fake
def _(grad: Tensor, grad_kl: Tensor, means: Any, delta: Tensor, gamma: Tensor, *rest: Any) -> Any:
    del grad_kl, means, rest
    return delta.new_empty(grad.shape[1]), torch.empty_like(delta), torch.empty_like(gamma)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    means, delta, gamma, locs, scales, seeds, _ = inputs
    ctx.counts = len(means), len(locs)
    ctx.set_materialize_grads(False)  # zeros for what nobody differentiates would be a launch each
    ctx.save_for_backward(*means, delta, gamma, *locs, *scales, seeds, output[2])


def _backward(ctx: Any, grad: Tensor | None, grad_kl: Tensor | None, _: Any) -> tuple[Any, ...]:
    tensors, priors = ctx.counts
    saved = list(ctx.saved_tensors)
    means, saved = saved[:tensors], saved[tensors:]
    delta, gamma, *saved = saved
    locs, scales, (seeds, relative) = saved[:priors], saved[priors : 2 * priors], saved[2 * priors :]
    if grad is None:
        grad = delta.new_zeros(len(seeds), sum(mean.numel() for mean in means))
    if grad_kl is None:
        grad_kl = delta.new_zeros(())
    by_means, by_delta, by_gamma = _draw_backward(
        grad.contiguous(), grad_kl, means, delta, gamma, locs, scales, seeds, relative
    )
    return unflatten(by_means, means), by_delta, by_gamma, [None] * priors, [None] * priors, None, None


_draw.register_autograd(_backward, setup_context=_setup)


@_draw.register_vmap
def _(info: Any, in_dims: Any, *inputs: Any) -> Any:
    """Over seeds alone: as many more draws."""
    *others, seeds_dim, dtype_dim = in_dims
    del dtype_dim
    batched = [dim for item in others for dim in (item if isinstance(item, list | tuple) else [item])]
    if any(dim is not None for dim in batched) or seeds_dim is None:
        raise NotImplementedError('the fused draw is batched over its seeds only; use sampler="torch" under this vmap')
    *arguments, seeds, dtype = inputs
    seeds = seeds.movedim(seeds_dim, 0)
    drawn, divergence, relative = _draw(*arguments, seeds.reshape(-1), dtype)
    return (drawn.reshape(info.batch_size, -1, drawn.shape[-1]), divergence, relative), (0, None, None)


def draw(
    means: Sequence[Tensor],
    delta: Tensor,
    gamma: Tensor,
    seeds: Tensor,
    dtype: torch.dtype = torch.float32,
    prior: tuple[Sequence[Tensor], Sequence[Tensor]] = ((), ()),
) -> tuple[list[Tensor], Tensor]:
    """Draws of all tensors from N(m, Σ), a stack of len(seeds) each, and with a prior the divergence from it.

    Args:
        means: T tensors m_j of any shape, float32, in row-major or channels_last memory; the draws lie alike.
        delta, gamma: (T,) float32, the raw τ and ρ of each.
        seeds: (n,) int64 on the same device: a draw is a function of its seed.
        dtype: of the draws.
        prior: loc and scale for each tensor, each a scalar or flat with K entries, float32.
    """
    drawn, divergence, _ = _draw(list(means), delta, gamma, list(prior[0]), list(prior[1]), seeds, dtype)
    return unflatten(drawn, means), divergence


def unflatten(rows: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """(…, total) cut into tensors, each with the shape and the memory order of its model."""
    pieces = rows.split([tensor.numel() for tensor in like], -1) if len(like) > 1 else [rows]  # slopes of one lie well
    return [_shaped(piece, tensor) for piece, tensor in zip(pieces, like, strict=True)]


def _shaped(piece: Tensor, like: Tensor) -> Tensor:
    lead = piece.shape[:-1]
    if like.is_contiguous():
        return piece.reshape(lead + like.shape)
    axes = reference.memory_order(like)
    back = [len(lead) + axes.index(axis) for axis in range(like.ndim)]
    return piece.reshape(lead + tuple(like.shape[axis] for axis in axes)).permute(*range(len(lead)), *back)
