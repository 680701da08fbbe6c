"""All draws of a model and its divergence by one autograd function, for the CPU.

There a step of a small network spends more on calls than on arithmetic: a function a tensor for the draw, a dozen
operations a tensor for (30), and as many again backwards. Here both share their passes over the means, forward and
backward, and a pass is one call for all tensors; values and gradients are those of draw.py and divergence.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tribayes.posterior.draw import inner, plain_on_cpu, raw_factors, sigmoid, softplus

Tensors = list[Tensor] | tuple[Tensor, ...]  # what torch's operations on many tensors take
Plain = Callable[[Sequence[Tensor], Tensor, Tensor], tuple[list[Tensor], Tensor]]


@dataclass(frozen=True)
class Given:
    """What is not differentiated: K + 1 normals and the prior of each tensor, and the same sum in plain torch."""

    normals: list[Tensor]
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
        magnitudes = torch._foreach_abs(means)
        pairs = [(x[1:], x[:-1]) for x in given.normals]  # x_i and x_{i−1}
        mixed = [torch.add(own, before, alpha=s.t) for (own, before), s in zip(pairs, scalars, strict=True)]
        drawn = torch._foreach_addcmul(means, mixed, magnitudes, [s.current for s in scalars])
        priors = [_Prior.of(loc, scale) for loc, scale in zip(given.locs, given.scales, strict=True)]
        relative, divergence = _divergence(means, magnitudes, scalars, priors)
        ctx.given, ctx.scalars, ctx.priors, ctx.relative, ctx.pairs = given, scalars, priors, relative, pairs
        ctx.save_for_backward(delta, gamma, *means, *drawn)
        return (*drawn, delta.new_tensor(divergence))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        delta, gamma, *rest = ctx.saved_tensors
        means, drawn = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        if torch.is_grad_enabled():
            return None, *_again(ctx, delta, gamma, means, grads)
        weight = grads[-1].item()
        by_means = _by_means(means, drawn, grads[:-1], ctx.scalars, weight, ctx.priors)
        slopes = _mixing_slopes(means, grads[:-1], ctx.pairs)
        found = [
            _by_scalars(mean.numel(), s, by_current, by_previous, weight, relative)
            for mean, s, (by_current, by_previous), relative in zip(
                means, ctx.scalars, slopes, ctx.relative, strict=True
            )
        ]
        by_delta, by_gamma = zip(*found, strict=True)
        return None, delta.new_tensor(by_delta), gamma.new_tensor(by_gamma), *by_means


def _mixing_slopes(means: Tensors, grads: Tensors, pairs: Sequence[tuple[Tensor, Tensor]]) -> list[tuple[float, float]]:
    """∂L/∂A = Σ g_i |m_i| x_i and ∂L/∂B = Σ g_i |m_i| x_{i−1} of every tensor."""
    weighted = torch._foreach_abs(means)
    torch._foreach_mul_(weighted, grads)
    return [(inner(own, w), inner(before, w)) for (own, before), w in zip(pairs, weighted, strict=True)]


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


@dataclass(frozen=True)
class _Prior:
    """The prior of one tensor; `zeta` is ζ where one number serves all its weights and μ is 0, as it mostly is."""

    loc: Tensor
    scale: Tensor
    zeta: float | None

    @classmethod
    def of(cls, loc: Tensor, scale: Tensor) -> _Prior:
        simple = scale.numel() == loc.numel() == 1 and loc.item() == 0
        return cls(loc, scale, scale.item() if simple else None)

    def sums(self, mean: Tensor, square: float) -> tuple[float, float, float]:
        """Σ m²/ζ², Σ (m − μ)²/ζ² and Σ ln ζ, given Σ m²."""
        if self.zeta is not None:
            relative = square / self.zeta**2
            return relative, relative, mean.numel() * math.log(self.zeta)
        distance = ((mean - self.loc) / self.scale).square_().sum().item()
        log_scale = self.scale.log().sum().item() * (mean.numel() / self.scale.numel())
        return (mean / self.scale).square_().sum().item(), distance, log_scale


def _divergence(
    means: Tensors, magnitudes: Tensors, scalars: Sequence[_Scalars], priors: Sequence[_Prior]
) -> tuple[list[float], float]:
    """Σ m²/ζ² of every tensor, and equation (30) summed over all of them. Overwrites the magnitudes."""
    torch._foreach_log_(magnitudes)
    logs_and_squares = [*(log.sum() for log in magnitudes), *(torch.dot(mean, mean) for mean in means)]
    logs, squares = torch.stack(logs_and_squares).view(2, -1).tolist()
    sums = [prior.sums(mean, square) for prior, mean, square in zip(priors, means, squares, strict=True)]
    terms = [
        distance + 2 * (log_scale - log) + s.tau**2 * relative - _entropy(s, mean.numel())
        for mean, s, log, (relative, distance, log_scale) in zip(means, scalars, logs, sums, strict=True)
    ]
    return [relative for relative, _, _ in sums], 0.5 * math.fsum(terms)


def _entropy(s: _Scalars, size: int) -> float:
    """K (1 + 2 ln τ) + ln det T."""
    return size * (1 + 2 * math.log(s.tau)) + _log_determinant(s.t, size)


def _log_determinant(t: float, size: int) -> float:
    """ln det T (correlation.log_determinant)."""
    square = t * t
    return math.log1p(-(square ** (size + 1))) - math.log1p(-square) - size * math.log1p(square)


def _by_means(
    means: Tensors,
    drawn: Tensors,
    grads: Tensors,
    scalars: Sequence[_Scalars],
    weight: float,
    priors: Sequence[_Prior],
) -> Tensors:
    """g w/m − ν/m + ν ((1 + τ²) m − μ)/ζ² of every tensor, with ν the weight of the divergence."""
    slopes = torch._foreach_mul(grads, drawn)
    torch._foreach_sub_(slopes, weight)
    torch._foreach_div_(slopes, means)
    for slope, mean, s, prior in zip(slopes, means, scalars, priors, strict=True):
        factor = weight * (1 + s.tau**2)
        if prior.zeta is None:
            slope.add_((mean * factor - weight * prior.loc).div_(prior.scale.square()))
        else:
            slope.add_(mean, alpha=factor / prior.zeta**2)
    return slopes


def _by_scalars(
    size: int, s: _Scalars, by_current: float, by_previous: float, weight: float, relative: float
) -> tuple[float, float]:
    """∂L/∂δ and ∂L/∂γ of one tensor."""
    delta_factor, gamma_factor = raw_factors(s.tau, s.slope, s.t)
    t, square = s.t, s.t * s.t
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
