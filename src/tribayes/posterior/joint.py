"""All draws of a model and its divergence by one autograd function, for the CPU.

There a step of a small network spends more on calls than on arithmetic: a function a tensor for the draw, a dozen
operations a tensor for (30), and as many again backwards. Here both share their passes over the means, forward and
backward; values and gradients are those of draw.py and divergence.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tribayes.posterior.draw import mixed_draw, mixing_slopes, plain_on_cpu, raw_factors, sigmoid, softplus

Plain = Callable[[Sequence[Tensor], Tensor, Tensor], tuple[list[Tensor], Tensor]]


@dataclass(frozen=True)
class Given:
    """What is not differentiated: K + 1 normals and the prior of each tensor, and the same sum in plain torch."""

    normals: Sequence[Tensor]
    locs: Sequence[Tensor]
    scales: Sequence[Tensor]
    plain: Plain  # (means, δ, γ) → draws and divergence: what a second derivative goes through


def joint_draw(means: Sequence[Tensor], delta: Tensor, gamma: Tensor, given: Given) -> tuple[list[Tensor], Tensor]:
    """One draw of every flat mean (K,), and KL(q ‖ p) summed over them; δ and γ are (T,)."""
    *drawn, divergence = _Joint.apply(given, delta, gamma, *means)
    return drawn, divergence


def can_join(means: Sequence[Tensor], delta: Tensor, gamma: Tensor) -> bool:
    """Whether these are ordinary tensors on a CPU, all float32 or all float64."""
    dtypes = {tensor.dtype for tensor in (*means, delta, gamma)}
    return dtypes in ({torch.float32}, {torch.float64}) and plain_on_cpu(*means, delta, gamma)


class _Joint(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: Given, delta: Tensor, gamma: Tensor, *means: Tensor) -> tuple[Tensor, ...]:
        scalars = [_Scalars.of(d, g) for d, g in zip(delta.tolist(), gamma.tolist(), strict=True)]
        drawn = [mixed_draw(mean, x, s.current, s.t) for mean, s, x in zip(means, scalars, given.normals, strict=True)]
        terms = [
            _divergence(mean, s, loc, scale)
            for mean, s, loc, scale in zip(means, scalars, given.locs, given.scales, strict=True)
        ]
        ctx.given, ctx.scalars = given, scalars
        ctx.relative = [relative for _, relative in terms]
        ctx.save_for_backward(delta, gamma, *means, *drawn)
        return (*drawn, delta.new_tensor(math.fsum(term for term, _ in terms)))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        delta, gamma, *rest = ctx.saved_tensors
        means, drawn = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        if torch.is_grad_enabled():
            return None, *_again(ctx, delta, gamma, means, grads)
        weight = grads[-1].item()
        by_means, by_delta, by_gamma = [], [], []
        for number, (mean, w, s, grad) in enumerate(zip(means, drawn, ctx.scalars, grads[:-1], strict=True)):
            loc, scale = ctx.given.locs[number], ctx.given.scales[number]
            by_means.append(_by_mean(mean, w, grad, s, weight, loc, scale))
            d, g = _by_scalars(mean, grad, s, ctx.given.normals[number], weight, ctx.relative[number])
            by_delta.append(d)
            by_gamma.append(g)
        return None, delta.new_tensor(by_delta), gamma.new_tensor(by_gamma), *by_means


@dataclass(frozen=True)
class _Scalars:
    """The numbers of one tensor, by their names in draw.py."""

    tau: float
    slope: float  # dτ/dδ
    t: float
    current: float  # A = τ/√(1 + t²)

    @classmethod
    def of(cls, delta: float, gamma: float) -> _Scalars:
        tau, t = softplus(delta), math.tanh(0.25 * gamma)
        return cls(tau, sigmoid(delta), t, tau / math.hypot(t, 1))


def _divergence(mean: Tensor, s: _Scalars, loc: Tensor, scale: Tensor) -> tuple[float, float]:
    """Equation (30) of one tensor, and Σ m²/ζ²."""
    size = mean.numel()
    if scale.numel() == 1:
        zeta = scale.item()
        relative = torch.dot(mean, mean).item() / zeta**2
        log_scale = size * math.log(zeta)
    else:
        relative = (mean / scale).square_().sum().item()
        log_scale = scale.log().sum().item()
    centred = loc.numel() == 1 and loc.item() == 0
    distance = relative if centred else ((mean - loc) / scale).square_().sum().item()
    fixed = distance + 2 * (log_scale - mean.abs().log_().sum().item())
    return 0.5 * (
        fixed + s.tau**2 * relative - size * (1 + 2 * math.log(s.tau)) - _log_determinant(s.t, size)
    ), relative


def _log_determinant(t: float, size: int) -> float:
    """ln det T (correlation.log_determinant)."""
    square = t * t
    return math.log1p(-(square ** (size + 1))) - math.log1p(-square) - size * math.log1p(square)


def _by_mean(
    mean: Tensor, drawn: Tensor, grad: Tensor, s: _Scalars, weight: float, loc: Tensor, scale: Tensor
) -> Tensor:
    """g w/m − ν/m + ν ((1 + τ²) m − μ)/ζ², with ν the weight of the divergence."""
    slope = (grad * drawn).sub_(weight).div_(mean)
    if scale.numel() == loc.numel() == 1:
        precision = weight / scale.item() ** 2
        slope.add_(mean, alpha=precision * (1 + s.tau**2))
        return slope if loc.item() == 0 else slope.sub_(precision * loc.item())
    return slope.add_((mean * (1 + s.tau**2) - loc).div_(scale.square()), alpha=weight)


def _by_scalars(
    mean: Tensor, grad: Tensor, s: _Scalars, normals: Tensor, weight: float, relative: float
) -> tuple[float, float]:
    """∂L/∂δ and ∂L/∂γ of one tensor."""
    by_current, by_previous = mixing_slopes(mean, grad, normals)
    delta_factor, gamma_factor = raw_factors(s.tau, s.slope, s.t)
    size, t, square = mean.numel(), s.t, s.t * s.t
    power = square**size
    by_tau = weight * (s.tau * relative - size / s.tau)
    by_t = weight * (t / (1 - square) - size * t / (1 + square) - (size + 1) * t * power / (1 - power * square))
    by_delta = (by_current + t * by_previous) * delta_factor + by_tau * s.slope
    return by_delta, (by_previous - t * by_current) * gamma_factor - by_t * (1 - square) / 4


def _again(ctx: Any, delta: Tensor, gamma: Tensor, means: Sequence[Tensor], grads: Sequence[Tensor]) -> list[Any]:
    """The gradients as functions of everything, to be differentiated again: autograd's, through the plain sum."""
    inputs = [delta, gamma, *means]
    drawn, divergence = ctx.given.plain(means, delta, gamma)
    wanted = [number for number, value in enumerate(inputs) if value.requires_grad]
    found = torch.autograd.grad(
        [*drawn, divergence], [inputs[number] for number in wanted], list(grads), create_graph=True, allow_unused=True
    )
    slopes: list[Tensor | None] = [None] * len(inputs)
    for number, slope in zip(wanted, found, strict=True):
        slopes[number] = slope
    return slopes
