"""The Fisher information of (τ, t) for one tensor, in closed form.

With Σ = τ² D T D and the means fixed,

    F_ττ = 2K/τ²,     F_τt = (1/τ) ∂ ln det T/∂t,     F_tt = ½ tr[(T⁻¹ ∂T/∂t)²].

T = 1 + ρJ has eigenvalues 1 + 2ρ cos θ_k whose vectors do not depend on ρ, so tr[(T⁻¹ J)²] = −∂² ln det T/∂ρ², and with
L(t) = ln det T, ρ(t) = t/(1 + t²)

    F_tt = −½ (L'' − L' ρ''/ρ'),

which is O(1) because L is: ln(1 − t^{2K+2}) − ln(1 − t²) − K ln(1 + t²).
"""

from __future__ import annotations

import torch
from torch import Tensor


def log_determinant_slopes(t: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """(L', L'') of L(t) = ln det T for K = size."""
    square, count = t.square(), 2 * size + 2
    last = t.pow(count - 2)  # t^{2K}
    rest = 1 - last * square
    first = -count * last * t / rest + 2 * t / (1 - square) - 2 * size * t / (1 + square)
    second = (
        -count * (count - 1) * last / rest
        - (count * last * t / rest).square()
        + 2 * (1 + square) / (1 - square).square()
        - 2 * size * (1 - square) / (1 + square).square()
    )
    return first, second


def fisher(tau: Tensor, t: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """(F_ττ, F_τt, F_tt) of a tensor of K = size weights; for |t| near 1 use float64."""
    first, second = log_determinant_slopes(t, size)
    bend = -2 * t / (1 - t.square()) - 4 * t / (1 + t.square())  # ρ''/ρ'
    return 2 * size / tau.square(), first / tau, -0.5 * (second - first * bend)


def natural_gradient(tau: Tensor, t: Tensor, size: int, by_tau: Tensor, by_t: Tensor) -> tuple[Tensor, Tensor]:
    """F⁻¹ (∂/∂τ, ∂/∂t)."""
    own, mixed, other = fisher(tau, t, size)
    determinant = own * other - mixed.square()
    return (other * by_tau - mixed * by_t) / determinant, (own * by_t - mixed * by_tau) / determinant


def natural_scale(tau: Tensor, size: int, by_tau: Tensor) -> Tensor:
    """The same without correlation: only τ."""
    return by_tau * tau.square() / (2 * size)


def spectral_fisher(t: Tensor, size: int) -> Tensor:
    """F_tt by the K eigenvalues: O(K), for tests."""
    cosine = 2 * torch.cos(torch.pi * torch.arange(1, size + 1, dtype=t.dtype) / (size + 1))
    rho, slope = t / (1 + t.square()), (1 - t.square()) / (1 + t.square()).square()
    return 0.5 * (slope.unsqueeze(-1) * cosine / (1 + rho.unsqueeze(-1) * cosine)).square().sum(-1)
