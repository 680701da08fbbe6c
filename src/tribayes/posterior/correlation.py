"""The neighbour correlation matrix T(ρ), without recursion and without a matrix.

T(ρ) has ones on its diagonal and ρ beside it. For |ρ| < ½ it is the covariance of the moving average

    ε_i = (x_i + t x_{i−1}) / √(1 + t²),     ρ = t / (1 + t²),     |t| < 1,

over independent standard normals x_0 … x_K. Everything about T is a short expression in the coefficient t,
smooth through t = 0 and free of cancellation near the ends; the paper's recursion (8) is

    d_i = 1 − c_{i−1}²/(τ² m_i²) = (1 − t^{2i+2}) / ((1 + t²)(1 − t^{2i})).

All functions work on the last axis and cost O(K).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_BLOCK = 32  # entries that the filter takes at once


def coefficient_of(rho: Tensor) -> Tensor:
    """The moving-average coefficient t of a correlation ρ in (−½, ½)."""
    root = torch.sqrt((1 - 2 * rho) * (1 + 2 * rho))
    return 2 * rho / (1 + root)


def mixing(coefficient: Tensor, tau: Tensor | float = 1.0) -> tuple[Tensor, Tensor]:
    """The weights (τα, τβ) of τ ε_i = τα x_i + τβ x_{i−1}: α² + β² = 1 and αβ = ρ."""
    current = tau / torch.sqrt(1 + coefficient.square())  # not hypot, which ONNX does not have
    return current, coefficient * current


def correlate(normals: Tensor, current: Tensor, previous: Tensor) -> Tensor:
    """Neighbours mixed: A x_i + B x_{i−1}, (..., K + 1) → (..., K). With `mixing`'s weights, ε ~ N(0, T(ρ))."""
    before, own = normals[..., :-1], normals[..., 1:]
    return torch.addcmul(own * current.unsqueeze(-1), before, previous.unsqueeze(-1))


def log_determinant(coefficient: Tensor, size: int | Tensor) -> Tensor:
    """ln det T for K = size: −K ln(1 + t²) + ln(1 + t² + … + t^{2K}), the sum in closed form."""
    square = coefficient.square()
    geometric = torch.log1p(-square.pow(size + 1)) - torch.log1p(-square)
    return geometric - size * torch.log1p(square)


def pivots(coefficient: Tensor, size: int) -> Tensor:
    """The pivots d_1 … d_K of T = L D Lᵀ, as (..., K); d_i = D_i / D_{i−1} with D_n = det T_n."""
    complement = _complements(coefficient, size)
    scale = 1 + coefficient.square().unsqueeze(-1)
    return complement[..., 1:] / (scale * complement[..., :-1])


def quadratic_form(noise: Tensor, coefficient: Tensor) -> Tensor:
    """εᵀ T⁻¹ ε over the last axis.

    Forward elimination gives r_i = ε_i − (ρ / d_{i−1}) r_{i−1}, whose multiplier changes with i. The scaled
    s_i = (1 − t^{2i}) r_i obeys s_i = (1 − t^{2i}) ε_i − t s_{i−1}, with a constant one: a linear filter.
    """
    complement = _complements(coefficient, noise.shape[-1])
    filtered = first_order_filter(complement[..., :-1] * noise, -coefficient)
    weights = (1 + coefficient.square().unsqueeze(-1)) / (complement[..., :-1] * complement[..., 1:])
    return (filtered.square() * weights).sum(-1)


def _complements(coefficient: Tensor, size: int) -> Tensor:
    """1 − t^{2i} for i = 1 … K + 1."""
    powers = torch.arange(1, size + 2, device=coefficient.device, dtype=coefficient.dtype)
    return 1 - coefficient.square().unsqueeze(-1).pow(powers)


def first_order_filter(inputs: Tensor, coefficient: Tensor) -> Tensor:
    """Solve y_i = u_i + k y_{i−1} (y_0 = 0) along the last axis, for u of shape (..., K) and k of shape (...).

    Blocks of 32 are filtered by one product with the triangular matrix of powers of k; what each block hands
    to the next obeys the same recurrence with coefficient k³², on a sequence 32 times shorter.
    """
    size = inputs.shape[-1]
    blocks = F.pad(inputs, (0, -size % _BLOCK)).unflatten(-1, (-1, _BLOCK))  # (..., K/32, 32)
    outputs = blocks @ _powers_by_distance(coefficient)
    if blocks.shape[-2] > 1:
        ends = first_order_filter(outputs[..., -1], coefficient.pow(_BLOCK))
        carried = F.pad(ends[..., :-1], (1, 0)).unsqueeze(-1)  # (..., K/32, 1)
        outputs = outputs + carried * coefficient[..., None, None].pow(1 + _steps(coefficient))
    return outputs.flatten(-2)[..., :size]


def _powers_by_distance(coefficient: Tensor) -> Tensor:
    """(..., 32, 32): entry (j, i) is k^{i−j}, the share of input j in output i; zero where j > i."""
    steps = _steps(coefficient)
    distance = steps - steps.unsqueeze(-1)
    return coefficient[..., None, None].pow(distance.clamp(min=0)) * (distance >= 0)


def _steps(like: Tensor) -> Tensor:
    return torch.arange(_BLOCK, device=like.device, dtype=like.dtype)
