"""Raw numbers that an optimizer may move freely, and the legal ones they stand for.

    τ = softplus(δ) > 0                                   equation (22)
    ρ = sigmoid(γ) − ½ = ½ tanh(γ/2) in (−½, ½)           equation (23)
    t = tanh(γ/4), the moving-average coefficient of ρ    (correlation.py)

Going from γ to t directly keeps full precision where ρ in float32 has lost it: at |γ| = 10, 1 − 2|ρ| is 9e-5.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

SMALLEST_MEAN = 1e-6  # the paper's bound: below it, ln m² and its derivative 1/m run away
LARGEST_GAMMA = 10.0  # the paper's bound: |ρ| ≤ 0.49995
SMALLEST_DELTA = -10.0  # τ ≥ 4.5e-5: far under any useful noise, far over float32's underflow


def tau_of(delta: Tensor) -> Tensor:
    """τ = ln(1 + exp δ)."""
    return F.softplus(delta)


def delta_of(tau: Tensor) -> Tensor:
    """The inverse of `tau_of`, without overflow for large τ or cancellation for small."""
    return tau + torch.log(-torch.expm1(-tau))


def rho_of(gamma: Tensor) -> Tensor:
    """ρ = sigmoid(γ) − ½, written as a tanh so that small γ keep their digits."""
    return 0.5 * torch.tanh(0.5 * gamma)


def gamma_of(rho: Tensor) -> Tensor:
    """The inverse of `rho_of`."""
    return 2 * torch.atanh(2 * rho)


def coefficient_of(gamma: Tensor) -> Tensor:
    """t = tanh(γ/4), so that t / (1 + t²) = ρ."""
    return torch.tanh(0.25 * gamma)
