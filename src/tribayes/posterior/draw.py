"""One reparameterised draw, w = m + |m| τ ε with ε ~ N(0, T(ρ)), and its backward pass in O(K).

With τ ε_i = A x_i + B x_{i−1} over K + 1 normals (correlation.py; A = τα, B = τβ) and g = ∂L/∂w, the paper's double
loop (34)-(45) comes to

    ∂L/∂m_i = g_i (1 + sign(m_i) τ ε_i),     ∂L/∂A = Σ g_i |m_i| x_i,     ∂L/∂B = Σ g_i |m_i| x_{i−1}.

Autograd would find the same numbers with twice the passes over memory; this is why they are written out.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from tribayes.posterior.correlation import correlate, neighbours


def draw(loc: Tensor, current: Tensor, previous: Tensor, normals: Tensor) -> Tensor:
    """A draw from N(m, Σ), differentiable in `loc` and in the mixing weights A (`current`) and B (`previous`).

    Shapes: loc (..., K), current and previous (...), normals (*sample, ..., K + 1) → (*sample, ..., K).
    """
    drawn: Tensor = _Draw.apply(loc, current, previous, normals)[0]
    return drawn


class _Draw(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(loc: Tensor, current: Tensor, previous: Tensor, normals: Tensor) -> tuple[Tensor, Tensor]:
        noise = correlate(normals, current, previous)
        return torch.addcmul(loc, noise, loc.abs()), noise

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
        _, noise = output
        ctx.mark_non_differentiable(noise)
        ctx.save_for_backward(*inputs, noise)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor, Tensor, Tensor, None]:
        loc, current, previous, normals, noise = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated again: the noise must be seen to depend on its weights
            noise = correlate(normals, current, previous)
        x_before, x = neighbours(normals)
        signed = grad * loc.sign()
        weighted = signed * loc  # g |m|
        return (
            _like(torch.addcmul(grad, signed, noise), loc),
            _like(_inner(weighted, x), current),
            _like(_inner(weighted, x_before), previous),
            None,
        )


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """Σ a b over the last axis; for vectors without a product in memory."""
    return torch.dot(a, b) if a.ndim == b.ndim == 1 else (a * b).sum(-1)


def _like(gradient: Tensor, value: Tensor) -> Tensor:
    """Summed over the axes along which `value` was broadcast."""
    return gradient if gradient.shape == value.shape else gradient.sum_to_size(value.shape)


# torch inspects this signature anew in every call, a tenth of the cost of a small draw; this is its cache
_Draw.forward.__signature__ = inspect.signature(_Draw.forward)  # type: ignore[attr-defined]
