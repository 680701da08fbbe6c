"""The draw on a CPU: all tensors and their divergence by one autograd function.

There a step of a small network spends more on calls than on arithmetic: a dozen operations per tensor for the draw, a
dozen for (30), and as many again backwards. Here draw and divergence share their passes over the means, a pass is one
call for all tensors, and the numbers of a tensor (τ, t and what follows from them) are Python's own. With
r_i = sign(m_i) τ ε_i and g = ∂L/∂w the paper's double loop (34)-(45) comes to

    ∂L/∂m_i = g_i (1 + r_i) = g_i w_i / m_i,     ∂L/∂A = Σ g_i |m_i| x_i,     ∂L/∂B = Σ g_i |m_i| x_{i−1}.

1 + r_i is read off the draw itself, and is 1 where m_i is zero (where the law has no density).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from tribayes.posterior.draw import plain
from tribayes.posterior.draw.plain import Count, Means, Priors, WeightsAndKL
from tribayes.posterior.prior import TensorPrior
from tribayes.posterior.streams import Randomness

Tensors = list[Tensor] | tuple[Tensor, ...]  # what torch's operations on many tensors take

_SHORT = 4096  # entries below which a call costs more than its arithmetic


def can_draw(means: Sequence[Tensor], delta: Tensor, gamma: Tensor) -> bool:
    """Whether these are ordinary tensors on a CPU, all float32 or all float64, whose values may be read."""
    if torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None:
        return False
    tensors = (*means, delta, gamma)
    if {tensor.dtype for tensor in tensors} not in ({torch.float32}, {torch.float64}):
        return False
    return all(type(tensor) in (Tensor, Parameter) and tensor.is_cpu for tensor in tensors)


def draw(
    means: Means, delta: Tensor, gamma: Tensor, randomness: Randomness, count: Count = None, priors: Priors = None
) -> WeightsAndKL:
    """As `tribayes.posterior.draw.draw`, from the same normals as the plain one."""
    sources = plain.sources_of(means, randomness)
    rows = [mean.reshape(-1) for mean in means]
    rounds = [
        _Draw.apply(plain.normals_for(rows, sources), None if number else priors, delta, gamma, *rows)
        for number in range(count or 1)
    ]
    *columns, divergences = zip(*rounds, strict=True)
    weights = [
        one[0].reshape(mean.shape) if count is None else torch.stack(one).reshape(count, *mean.shape)
        for mean, one in zip(means, columns, strict=True)
    ]
    return weights, None if priors is None else divergences[0]


class _Draw(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, normals: list[Tensor], given: Priors, delta: Tensor, gamma: Tensor, *means: Tensor
    ) -> tuple[Tensor, ...]:
        scalars = [_Scalars.of(d, g) for d, g in zip(delta.tolist(), gamma.tolist(), strict=True)]
        magnitudes = torch._foreach_abs(means)
        pairs = [(x[1:], x[:-1]) for x in normals]  # x_i and x_{i−1}
        mixed = [torch.add(own, before, alpha=s.t) for (own, before), s in zip(pairs, scalars, strict=True)]
        drawn = torch._foreach_addcmul(means, mixed, magnitudes, [_scalar(s.current, delta) for s in scalars])
        fixed = [prior for prior in given or () if isinstance(prior, TensorPrior)]  # all of them, or none
        priors = [_Prior.of(prior, mean) for prior, mean in zip(fixed, means, strict=bool(fixed))]
        relative, divergence = [0.0] * len(means), 0.0
        if given:
            found = _divergence(means, magnitudes, scalars, priors) if fixed else _relative_divergence(means, scalars)
            relative, divergence = found
        ctx.given, ctx.scalars, ctx.priors, ctx.relative, ctx.pairs = (normals, given), scalars, priors, relative, pairs
        ctx.save_for_backward(delta, gamma, *means, *drawn)
        return (*drawn, delta.new_tensor(divergence))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        delta, gamma, *rest = ctx.saved_tensors
        means, drawn = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        if torch.is_grad_enabled():
            return None, None, *_differentiable(delta, gamma, means, grads, *ctx.given)
        weight = grads[-1].item() if ctx.given[1] else 0.0
        by_means = _by_means(means, drawn, grads[:-1], ctx.scalars, weight if ctx.priors else 0.0, ctx.priors)
        columns = zip(means, ctx.scalars, _by_mixing(means, grads[:-1], ctx.pairs), ctx.relative, strict=True)
        found = [_by_raw(mean.numel(), s, mixing, weight, sums) for mean, s, mixing, sums in columns]
        by_delta, by_gamma = zip(*found, strict=True)
        return None, None, delta.new_tensor(by_delta), gamma.new_tensor(by_gamma), *by_means


@dataclass(frozen=True)
class _Scalars:
    """The numbers of one tensor."""

    tau: float
    tau_by_delta: float
    t: float
    current: float  # A = τ/√(1 + t²); B = tA

    @classmethod
    def of(cls, delta: float, gamma: float) -> _Scalars:
        decay = math.exp(-abs(delta))
        tau = max(delta, 0.0) + math.log1p(decay)
        t = math.tanh(0.25 * gamma)
        return cls(tau, (1 if delta >= 0 else decay) / (1 + decay), t, tau / math.hypot(t, 1))

    def entropy(self, size: int) -> float:
        """K (1 + 2 ln τ) + ln det T."""
        square = self.t * self.t
        geometric = math.log1p(-(square ** (size + 1))) - math.log1p(-square)
        return size * (1 + 2 * math.log(self.tau)) + geometric - size * math.log1p(square)


@dataclass(frozen=True)
class _Prior:
    """The prior of one tensor; `zeta` is ζ where one number serves all its weights and μ is 0, as it mostly is."""

    loc: Tensor
    scale: Tensor
    zeta: float | None

    @classmethod
    def of(cls, prior: TensorPrior, mean: Tensor) -> _Prior:
        loc, scale = prior.loc.to(mean.dtype), prior.scale.to(mean.dtype)
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
        distance + 2 * (log_scale - log) + s.tau**2 * relative - s.entropy(mean.numel())
        for mean, s, log, (relative, distance, log_scale) in zip(means, scalars, logs, sums, strict=True)
    ]
    return [relative for relative, _, _ in sums], 0.5 * math.fsum(terms)


def _relative_divergence(means: Tensors, scalars: Sequence[_Scalars]) -> tuple[list[float], float]:
    """The same for the relative prior: Σ m²/ζ² = K/(1 + τ²) there, and ½ K ln(1 + 1/τ²) − ½ ln det T."""
    sizes = [mean.numel() for mean in means]
    terms = [k * (1 + math.log1p(s.tau**2)) - s.entropy(k) for k, s in zip(sizes, scalars, strict=True)]
    return [k / (1 + s.tau**2) for k, s in zip(sizes, scalars, strict=True)], 0.5 * math.fsum(terms)


def _by_means(
    means: Tensors, drawn: Tensors, grads: Tensors, scalars: Sequence[_Scalars], weight: float, priors: Sequence[_Prior]
) -> Tensors:
    """g w/m − ν/m + ν ((1 + τ²) m − μ)/ζ² of every tensor, with ν the weight of the divergence."""
    gradients = torch._foreach_mul(grads, drawn)
    if weight:
        torch._foreach_sub_(gradients, weight)
    torch._foreach_div_(gradients, means)
    if not weight:  # with a divergence, which is infinite at a mean of zero, there is nothing to save
        _mend_zeros_(gradients, means, grads)
    for gradient, mean, s, prior in zip(gradients, means, scalars, priors, strict=bool(priors)):
        factor = weight * (1 + s.tau**2)
        if prior.zeta is None:
            gradient.add_((mean * factor - weight * prior.loc).div_(prior.scale.square()))
        else:
            gradient.add_(mean, alpha=_scalar(factor / prior.zeta**2, mean))
    return gradients


def _scalar(value: float, like: Tensor) -> float:
    """A number as torch takes it for a tensor: infinite, where its dtype has no room. A loss that is not finite says so
    by itself; torch's word on the conversion would not be understood."""
    return math.copysign(math.inf, value) if abs(value) > torch.finfo(like.dtype).max else value


def _mend_zeros_(gradients: Tensors, means: Tensors, grads: Tensors) -> None:
    """g where m is zero, and g w/m therefore not a number. A sum finds it in a hundredth of the time of a draw."""
    for gradient, mean, grad in zip(gradients, means, grads, strict=True):
        if math.isnan(gradient.sum().item()):
            zero = mean == 0
            gradient[zero] = grad[zero]


def _by_mixing(means: Tensors, grads: Tensors, pairs: Sequence[tuple[Tensor, Tensor]]) -> list[tuple[float, float]]:
    """∂L/∂A = Σ g_i |m_i| x_i and ∂L/∂B = Σ g_i |m_i| x_{i−1} of every tensor."""
    weighted = torch._foreach_abs(means)
    torch._foreach_mul_(weighted, grads)
    return [(_inner(own, w), _inner(before, w)) for (own, before), w in zip(pairs, weighted, strict=True)]


def _inner(part: Tensor, vector: Tensor) -> float:
    """Σ a b of two vectors.

    For long ones as the product of a matrix with one row: x_1 … x_K does not begin at a multiple of 16 bytes, and there
    torch.dot takes eight times as long (MKL, AVX-512).
    """
    product = torch.dot(part, vector) if len(vector) < _SHORT else torch.mv(part.unsqueeze(0), vector)
    return product.item()


def _by_raw(size: int, s: _Scalars, mixing: tuple[float, float], weight: float, relative: float) -> tuple[float, float]:
    """∂L/∂δ and ∂L/∂γ of one tensor, from ∂L/∂A and ∂L/∂B and from (30); dt/dγ = (1 − t²)/4."""
    by_current, by_previous = mixing
    t, square = s.t, s.t * s.t
    shrink = (1 + square) ** -0.5
    by_tau = (by_current + t * by_previous) * shrink + weight * (s.tau * relative - size / s.tau)
    power = square**size
    log_determinant = t / (1 - square) - size * t / (1 + square) - (size + 1) * t * power / (1 - power * square)
    by_t = (by_previous - t * by_current) * s.tau * shrink**3 - weight * log_determinant
    return by_tau * s.tau_by_delta, by_t * (1 - square) / 4


def _differentiable(
    delta: Tensor, gamma: Tensor, means: Means, grads: Sequence[Tensor], normals: list[Tensor], priors: Priors
) -> list[Tensor | None]:
    """The gradients as functions of everything, to be differentiated again: autograd's, through the plain draw."""
    inputs = [delta, gamma, *means]
    outputs, upstream = plain.weights_from(means, delta, gamma, normals), list(grads[:-1])
    if priors is not None:
        outputs.append(plain.divergence_of(means, delta, gamma, priors))
        upstream.append(grads[-1])
    wanted = [value for value in inputs if value.requires_grad]
    found = iter(torch.autograd.grad(outputs, wanted, upstream, create_graph=True, allow_unused=True))
    return [next(found) if value.requires_grad else None for value in inputs]
