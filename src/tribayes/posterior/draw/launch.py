"""The kernels of the draw launched: forward, backward, guards."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import triton
from torch import Tensor

from tribayes._errors import refusal
from tribayes.posterior.draw import kernels
from tribayes.posterior.draw.layout import BLOCK, Layout, layout_of, prior_table
from tribayes.posterior.parametrisation import LARGEST_GAMMA, SMALLEST_MEAN, rule_of

Tensors = Sequence[Tensor]

_CHUNK = 4096  # block sums read at once by a reduction: one program adds up all blocks of a tensor,
_REDUCING = 16  # with so many warps
_DRAWS = 65_535  # of one launch: a grid has no more rows
_COINS = 2**31  # for means; those for γ are counted from there (kernels.py)
_WARPS = 8  # with 2,048 entries per block: the fastest pair on an H200
_FAST = os.environ.get("TRITON_INTERPRET") != "1"  # the interpreter has no hardware sine


def draw(
    means: Tensors,
    delta: Tensor,
    gamma: Tensor,
    locs: Tensors,
    scales: Tensors,
    seeds: Tensor,
    relative: bool,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """Draws (n, total), the divergence () from fixed or relative priors and Σ m²/ζ² of each tensor (T,)."""
    layout = layout_of(means, dtype)
    drawn = _flat(layout, len(seeds), layout.total, dtype=dtype, device=delta.device)
    with_kl = bool(locs)
    prior = prior_table(locs, scales) if with_kl else layout.table
    sums = torch.empty(layout.blocks if with_kl else 0, 2, device=delta.device)
    options = _options(layout, locs, scales)
    for some, rows in _launches(seeds, drawn):
        kernels.forward_kernel[layout.blocks, len(some)](
            layout.table, delta, gamma, some, rows, _stride(layout, seeds), prior, sums, **options
        )
    squares = torch.empty(layout.tensors if with_kl or relative else 0, device=delta.device)
    if not len(squares):
        return drawn, torch.zeros((), device=delta.device), squares
    terms = torch.empty_like(squares)
    scalars = (sums, layout.first, layout.sizes, delta, gamma, squares, terms)
    warps = 1 if relative else _REDUCING
    kernels.divergence_kernel[(layout.tensors,)](*scalars, RELATIVE=relative, CHUNK=_CHUNK, num_warps=warps)
    return drawn, terms.sum(), squares


def backward(
    grad: Tensor,
    grad_kl: Tensor,
    means: Tensors,
    delta: Tensor,
    gamma: Tensor,
    locs: Tensors,
    scales: Tensors,
    seeds: Tensor,
    squares: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """∂L/∂m (total,), ∂L/∂δ and ∂L/∂γ (T,)."""
    layout = layout_of(means, grad.dtype)
    by_mean = _flat(layout, layout.total, device=delta.device)
    sums = torch.empty(layout.blocks, 2, device=delta.device)
    with_kl = bool(locs)
    prior = prior_table(locs, scales) if with_kl else layout.table
    stride, options = _stride(layout, seeds), _options(layout, locs, scales)
    kernels.backward_kernel[(layout.blocks,)](
        layout.table, delta, gamma, seeds, grad, stride, prior, grad_kl, by_mean, sums, len(seeds), **options
    )
    by_delta, by_gamma = torch.empty_like(delta), torch.empty_like(gamma)
    scalars = (sums, layout.first, layout.sizes, delta, gamma, squares, grad_kl, by_delta, by_gamma)
    kernels.scalars_kernel[(layout.tensors,)](*scalars, KL=len(squares) > 0, CHUNK=_CHUNK, num_warps=_REDUCING)
    return by_mean, by_delta, by_gamma


def _launches(seeds: Tensor, drawn: Tensor) -> Iterable[tuple[Tensor, Tensor]]:
    """The seeds and the rows of each launch: all of them, but for very many draws."""
    if len(seeds) <= _DRAWS:
        return [(seeds, drawn)]
    return zip(seeds.split(_DRAWS), drawn.split(_DRAWS), strict=True)


def _flat(layout: Layout, *shape: int, **options: Any) -> Tensor:
    """Room for all tensors, with zeros in the gaps between them, if there are any."""
    return (torch.zeros if layout.gaps else torch.empty)(*shape, **options)


def _stride(layout: Layout, seeds: Tensor) -> int:
    """Numbers from one draw to the next. 0 for a draw alone: a multiple of 16, of which Triton reads four at once."""
    return layout.total if len(seeds) > 1 else 0


def _options(layout: Layout, locs: Tensors, scales: Tensors) -> dict[str, Any]:
    """What the kernels of both passes are compiled for."""
    uniform = all(value.numel() == 1 for value in (*locs, *scales))  # every tensor's prior is one loc and one scale
    form = {"STRIDED": layout.strided, "ALIGNED": layout.aligned, "BLOCK": BLOCK}
    return {"KL": bool(locs), "UNIFORM": uniform, **form, "FAST": _FAST, "num_warps": _WARPS}


def guard_(means: Tensors, delta: Tensor, gamma: Tensor | None, seed: Tensor, rule: str) -> None:
    """All guards of that rule, in place, in one launch; `seed` (1,) throws the coins, if there are any."""
    layout, bound = layout_of(means, delta.dtype), rule_of(rule)
    if bound.coin_for_sign and layout.normals > _COINS:
        requirement = 'have at most 2 billion random weights under rule="paper", which throws a coin for each on a GPU'
        raise refusal("model", layout.total, requirement, 'use rule="closed_form"')
    bounds = SMALLEST_MEAN, bound.smallest_delta, bound.smallest_gamma, LARGEST_GAMMA
    options = {"COIN": bound.coin_for_sign, "GAMMA": gamma is not None, "BLOCK": BLOCK, "num_warps": _WARPS}
    kernels.guard_kernel[(layout.blocks + triton.cdiv(len(delta), BLOCK),)](
        layout.table, layout.blocks, delta, delta if gamma is None else gamma, seed, len(delta), *bounds, **options
    )
