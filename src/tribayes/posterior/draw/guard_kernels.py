# mypy: ignore-errors
"""The guards (guards.py) on a GPU: all means and raw parameters of a model in one launch."""

from __future__ import annotations

import triton
import triton.language as tl

from tribayes.posterior.draw.kernels import block_of, philox


@triton.jit
def guard_kernel(
    table_ptr,
    blocks,
    delta_ptr,
    gamma_ptr,
    seed_ptr,
    tensors,
    smallest,
    smallest_delta,
    smallest_gamma,
    largest_gamma,
    COIN: tl.constexpr,
    GAMMA: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """All guards: the means by blocks, and behind them the raw parameters."""
    row = tl.program_id(0)
    if row < blocks:
        _guard_means(table_ptr, row, seed_ptr, smallest, COIN, BLOCK)
    else:
        tensor = (row - blocks) * BLOCK + tl.arange(0, BLOCK)
        _guard_delta(delta_ptr, tensor, tensors, smallest_delta)
        if GAMMA:
            _guard_gamma(gamma_ptr, tensor, tensors, seed_ptr, smallest_gamma, largest_gamma, COIN)


@triton.jit
def _guard_means(table_ptr, row, seed_ptr, smallest, COIN: tl.constexpr, BLOCK: tl.constexpr):
    """Means closer to zero than `smallest` out to it: with their sign, or with a thrown one."""
    # in channels_last memory the blocks' places are others, but every place is visited once all the same
    _, means, _, noise, _, place, inside, _ = block_of(table_ptr, row, BLOCK, False, False)
    m = tl.load(means + place, mask=inside, other=1.0)
    near = tl.abs(m) < smallest
    if COIN:
        counter = noise.to(tl.uint32) + tl.arange(0, BLOCK).to(tl.uint32)
        positive = _coin(seed_ptr, counter)
    else:
        positive = m >= 0
    tl.store(means + place, tl.where(positive, smallest, -smallest), mask=inside & near)


@triton.jit
def _guard_delta(delta_ptr, tensor, tensors, smallest_delta):
    """δ from below."""
    inside = tensor < tensors
    delta = tl.load(delta_ptr + tensor, mask=inside, other=0.0)
    tl.store(delta_ptr + tensor, tl.maximum(delta, smallest_delta), mask=inside)


@triton.jit
def _guard_gamma(gamma_ptr, tensor, tensors, seed_ptr, smallest_gamma, largest_gamma, COIN: tl.constexpr):
    """γ out of (−smallest, smallest) by a thrown sign, and into its bounds."""
    inside = tensor < tensors
    gamma = tl.load(gamma_ptr + tensor, mask=inside, other=0.0)
    if COIN:
        # counted from where no mean is
        thrown = tl.where(_coin(seed_ptr, tensor.to(tl.uint32) + 0x80000000), smallest_gamma, -smallest_gamma)
        gamma = tl.where(tl.abs(gamma) < smallest_gamma, thrown, gamma)
    gamma = tl.minimum(tl.maximum(gamma, -largest_gamma), largest_gamma)
    tl.store(gamma_ptr + tensor, gamma, mask=inside)


@triton.jit
def _coin(seed_ptr, counter):
    """Heads or tails for each counter."""
    bits, _ = philox(tl.load(seed_ptr), counter)
    return (bits & 1) == 1
