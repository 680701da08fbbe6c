"""One reparameterised draw, w = m + |m| τ ε with ε ~ N(0, T(ρ)), and its backward pass in O(K).

With τ ε_i = A x_i + B x_{i−1} over K + 1 normals (correlation.py; A = τα, B = τβ), r_i = sign(m_i) τ ε_i and
g = ∂L/∂w, the draw is w_i = m_i (1 + r_i) and the paper's double loop (34)-(45) comes to

    ∂L/∂m_i = g_i (1 + r_i),     ∂L/∂A = Σ g_i |m_i| x_i,     ∂L/∂B = Σ g_i |m_i| x_{i−1}.

Autograd would find the same numbers with twice the passes over memory; this is why they are written out. On a CPU a
small draw costs mostly the calls themselves, so there the scalars are Python's own (`draw_raw`).
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from tribayes.posterior import parametrisation
from tribayes.posterior.correlation import correlate, mixing, neighbours

_SHORT = 4096  # entries below which a call costs more than its arithmetic


def draw(loc: Tensor, current: Tensor, previous: Tensor, normals: Tensor) -> Tensor:
    """A draw from N(m, Σ), differentiable in `loc` and in the mixing weights A (`current`) and B (`previous`).

    Shapes: loc (..., K), current and previous (...), normals (*sample, ..., K + 1) → (*sample, ..., K).
    """
    drawn: Tensor = _Draw.apply(loc, current, previous, normals)[0]
    return drawn


def draw_raw(loc: Tensor, delta: Tensor, gamma: Tensor, normals: Tensor) -> Tensor:
    """The same from the raw parameters δ and γ of a single law, differentiable in them.

    Shapes: loc (K,), delta and gamma (), normals (*sample, K + 1) → (*sample, K).
    """
    if not plain_on_cpu(loc, delta, gamma, normals):
        weights = mixing(parametrisation.coefficient_of(gamma), parametrisation.tau_of(delta))
        return draw(loc, *weights, normals)
    drawn: Tensor = _RawDraw.apply(loc, delta, gamma, normals)
    return drawn


class _Draw(torch.autograd.Function):
    """From mixing weights that are tensors: any shape, any device, under any transform."""

    generate_vmap_rule = True

    @staticmethod
    def forward(loc: Tensor, current: Tensor, previous: Tensor, normals: Tensor) -> tuple[Tensor, Tensor]:
        relative = correlate(normals, current, previous) * loc.sign()
        return torch.addcmul(loc, loc, relative), relative

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
        _, relative = output
        ctx.mark_non_differentiable(relative)
        ctx.save_for_backward(*inputs, relative)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor, Tensor, Tensor, None]:
        loc, current, previous, normals, relative = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated again: the noise must be seen to depend on its weights
            relative = correlate(normals, current, previous) * loc.sign()
        by_loc, by_current, by_previous = _gradients(grad, loc, normals, relative)
        return _like(by_loc, loc), _like(by_current, current), _like(by_previous, previous), None


class _RawDraw(torch.autograd.Function):
    """From δ and γ, one vector on a CPU: their share of the chain rule is a few Python numbers.

    New memory and further calls cost more there than arithmetic. So results are overwritten where they can be, and
    1 + r_i is read off the draw itself, as w_i / m_i: m must not be zero, where the law has no density either.
    """

    @staticmethod
    def forward(ctx: Any, loc: Tensor, delta: Tensor, gamma: Tensor, normals: Tensor) -> Tensor:
        tau, t = softplus(delta.item()), math.tanh(0.25 * gamma.item())
        mixed = torch.add(normals[1:], normals[:-1], alpha=t)
        drawn = torch.addcmul(loc, mixed, loc.abs(), value=tau / math.hypot(t, 1))
        ctx.save_for_backward(loc, delta, gamma, normals, drawn)
        return drawn

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        loc, delta, gamma, normals, drawn = ctx.saved_tensors
        if torch.is_grad_enabled():
            return (*_differentiable_gradients(grad, loc, delta, gamma, normals), None)
        weighted = loc.abs().mul_(grad)
        by_current, by_previous = inner(normals[1:], weighted), inner(normals[:-1], weighted)
        number, t = delta.item(), math.tanh(0.25 * gamma.item())
        delta_factor, gamma_factor = raw_factors(softplus(number), sigmoid(number), t)
        by_delta = delta.new_full((), (by_current + t * by_previous) * delta_factor)
        by_gamma = gamma.new_full((), (by_previous - t * by_current) * gamma_factor)
        return (grad * drawn).div_(loc), by_delta, by_gamma, None


def inner(part: Tensor, vector: Tensor) -> float:
    """Σ a b of two vectors.

    For long ones as the product of a matrix with one row: x_1 … x_K does not begin at a multiple of 16 bytes, and there
    torch.dot takes eight times as long (MKL, AVX-512).
    """
    product = torch.dot(part, vector) if len(vector) < _SHORT else torch.mv(part.unsqueeze(0), vector)
    return product.item()


def _differentiable_gradients(
    grad: Tensor, loc: Tensor, delta: Tensor, gamma: Tensor, normals: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients as functions of all they depend on, to be differentiated again."""
    tau, t = parametrisation.tau_of(delta), parametrisation.coefficient_of(gamma)
    relative = correlate(normals, *mixing(t, tau)) * loc.sign()
    by_loc, by_current, by_previous = _gradients(grad, loc, normals, relative)
    by_delta, by_gamma = raw_factors(tau, torch.sigmoid(delta), t)
    return by_loc, (by_current + t * by_previous) * by_delta, (by_previous - t * by_current) * by_gamma


def _gradients(grad: Tensor, loc: Tensor, normals: Tensor, relative: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """∂L/∂m, ∂L/∂A and ∂L/∂B, with the axes of the draw."""
    x_before, x = neighbours(normals)
    weighted = grad * loc.abs()
    return torch.addcmul(grad, grad, relative), _inner(weighted, x), _inner(weighted, x_before)


def raw_factors(tau: Any, slope: Any, t: Any) -> tuple[Any, Any]:
    """What turns ∂L/∂A + t ∂L/∂B into ∂L/∂δ, and ∂L/∂B − t ∂L/∂A into ∂L/∂γ.

    A = τ/√(1 + t²), B = tA, dτ/dδ = slope = sigmoid(δ), dt/dγ = (1 − t²)/4.
    """
    shrink = (1 + t * t) ** -0.5
    return slope * shrink, tau * shrink**3 * (1 - t * t) / 4


def plain_on_cpu(*tensors: Tensor) -> bool:
    """Ordinary vectors and numbers whose values may be read: not traced, not batched by vmap, not fake."""
    if torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None:
        return False
    return all(type(tensor) in (Tensor, Parameter) and tensor.is_cpu and tensor.ndim < 2 for tensor in tensors)


def softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """Σ a b over the last axis; for vectors without a product in memory."""
    return torch.dot(a, b) if a.ndim == b.ndim == 1 else (a * b).sum(-1)


def _like(gradient: Tensor, value: Tensor) -> Tensor:
    """Summed over the axes along which `value` was broadcast."""
    return gradient if gradient.shape == value.shape else gradient.sum_to_size(value.shape)


# torch inspects this signature anew in every call, a tenth of the cost of a small draw; this is its cache
_Draw.forward.__signature__ = inspect.signature(_Draw.forward)  # type: ignore[attr-defined]
