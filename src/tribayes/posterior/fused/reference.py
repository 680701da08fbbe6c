"""The fused draw in plain torch: what the operation does on a CPU, and what the kernels are compared with."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tribayes.posterior import parametrisation
from tribayes.posterior.correlation import correlate, log_determinant, mixing, neighbours
from tribayes.posterior.guards import Rule, guard_delta_, guard_gamma_, guard_means_


def draw(
    means: Sequence[Tensor],
    delta: Tensor,
    gamma: Tensor,
    locs: Sequence[Tensor],
    scales: Sequence[Tensor],
    seeds: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """Draws (n, total), the divergence () and Σ m²/ζ² of each tensor (T,)."""
    sizes = [mean.numel() for mean in means]
    drawn = torch.stack([draw_given(means, delta, gamma, normals_of(sizes, seed)) for seed in seeds])
    if not locs:
        return drawn.to(dtype), torch.zeros((), device=delta.device), delta.new_empty(0)
    divergence, relative = divergence_of(means, delta, gamma, locs, scales)
    return drawn.to(dtype), divergence, relative


def backward(
    grad: Tensor,
    grad_kl: Tensor,
    means: Sequence[Tensor],
    delta: Tensor,
    gamma: Tensor,
    locs: Sequence[Tensor],
    scales: Sequence[Tensor],
    seeds: Tensor,
    relative: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """∂L/∂m (total,), ∂L/∂δ and ∂L/∂γ (T,), written out: inside an operation autograd is off."""
    sizes = [mean.numel() for mean in means]
    tau, t = parametrisation.tau_of(delta), parametrisation.coefficient_of(gamma)
    by_mean = torch.zeros_like(grad[0], dtype=delta.dtype)
    by_mixing = torch.zeros(2, len(means), dtype=delta.dtype)
    for row, seed in zip(grad.to(delta.dtype), seeds, strict=True):
        _add_gradients(by_mean, by_mixing, row, means, mixing(t, tau), normals_of(sizes, seed))
    by_current, by_previous = by_mixing
    shrink = torch.rsqrt(1 + t * t)
    by_tau = (by_current + t * by_previous) * shrink
    by_t = (by_previous - t * by_current) * tau * shrink**3
    if locs:
        by_mean += grad_kl * _divergence_by_mean(means, tau, locs, scales)
        count = torch.tensor(sizes).to(delta)
        by_tau += grad_kl * (tau * relative - count / tau)
        power = t.square().pow(count)
        by_t -= grad_kl * (t / (1 - t * t) - count * t / (1 + t * t) - (count + 1) * t * power / (1 - power * t * t))
    return by_mean, by_tau * torch.sigmoid(delta), by_t * (1 - t * t) / 4


def _add_gradients(
    by_mean: Tensor,
    by_mixing: Tensor,
    grad: Tensor,
    means: Sequence[Tensor],
    weights: tuple[Tensor, Tensor],
    normals: Sequence[Tensor],
) -> None:
    """Add one draw's ∂L/∂m, and its ∂L/∂A and ∂L/∂B (draw.py)."""
    start = 0
    for number, (mean, x, a, b) in enumerate(zip(means, normals, *weights, strict=True)):
        piece = slice(start, start := start + mean.numel())
        m, g = flat(mean), grad[piece]
        before, own = (flat(part.reshape(mean.shape), like=mean) for part in neighbours(x.to(mean)))
        by_mean[piece] += g * (1 + m.sign() * (a * own + b * before))
        weighted = g * m.abs()
        by_mixing[:, number] += torch.stack([weighted.dot(own), weighted.dot(before)])


def _divergence_by_mean(
    means: Sequence[Tensor], tau: Tensor, locs: Sequence[Tensor], scales: Sequence[Tensor]
) -> Tensor:
    """∂KL/∂m = −1/m + (τ² m + m − μ)/ζ² for all tensors."""
    pieces = []
    for mean, own, loc, scale in zip(means, tau, locs, scales, strict=True):
        row = mean.reshape(-1)
        slope = ((own * own + 1) * row - loc) / scale.square() - 1 / row
        pieces.append(flat(slope.reshape(mean.shape), like=mean))
    return torch.cat(pieces)


def guard_(means: Sequence[Tensor], delta: Tensor, gamma: Tensor | None, seed: Tensor, rule: Rule) -> None:
    """All guards of guards.py, in place; the seed is read only by a rule that throws coins."""
    source = torch.Generator().manual_seed(int(seed[0])) if rule.coin_for_sign else None
    for mean in means:
        guard_means_(mean, rule, source)
    guard_delta_(delta, rule)
    if gamma is not None:
        guard_gamma_(gamma, rule, source)


def normals_of(sizes: Sequence[int], seed: Tensor) -> list[Tensor]:
    """K + 1 standard normals for every tensor, always the same for a seed."""
    source = torch.Generator().manual_seed(int(seed))
    return [torch.randn(size + 1, generator=source) for size in sizes]


def draw_given(means: Sequence[Tensor], delta: Tensor, gamma: Tensor, normals: Sequence[Tensor]) -> Tensor:
    """The draw (total,) that the given normals make, tensor after tensor, each in the order of its memory."""
    tau, t = parametrisation.tau_of(delta), parametrisation.coefficient_of(gamma)
    current, previous = mixing(t, tau)
    pieces = []
    for mean, x, a, b in zip(means, normals, current, previous, strict=True):
        noise = correlate(x.to(mean), a.to(mean), b.to(mean)).reshape(mean.shape)
        pieces.append(flat(mean + mean.abs() * noise, like=mean))
    return torch.cat(pieces)


def divergence_of(
    means: Sequence[Tensor], delta: Tensor, gamma: Tensor, locs: Sequence[Tensor], scales: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Equation (30) summed over the tensors, and Σ m²/ζ² of each."""
    tau, t = parametrisation.tau_of(delta), parametrisation.coefficient_of(gamma)
    fixed, relative = [], []
    for mean, loc, scale in zip(means, locs, scales, strict=True):
        row = mean.reshape(-1)
        log_scale = scale.log().expand(row.shape).sum()
        fixed.append(((row - loc) / scale).square().sum() + 2 * (log_scale - row.abs().log().sum()))
        relative.append((row / scale).square().sum())
    sizes = torch.tensor([mean.numel() for mean in means], device=delta.device).to(delta)
    sums = torch.stack(relative)
    constant = sizes * (1 + 2 * tau.log()) + log_determinant(t, sizes)
    return 0.5 * (torch.stack(fixed) + tau.square() * sums - constant).sum(), sums.detach()


def flat(tensor: Tensor, like: Tensor | None = None) -> Tensor:
    """The entries in the order in which they lie in memory (`like`'s, where given)."""
    order = tensor if like is None else like
    if order.is_contiguous():
        return tensor.reshape(-1)
    axes = memory_order(order)
    return tensor.permute(axes).reshape(-1)


def memory_order(tensor: Tensor) -> list[int]:
    """The axes from the slowest in memory to the fastest."""
    strides = list(tensor.stride())
    return sorted(range(tensor.ndim), key=lambda axis: -strides[axis])
