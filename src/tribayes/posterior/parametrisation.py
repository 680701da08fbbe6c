"""Raw numbers that an optimizer may move freely, the legal ones they stand for, and the guards.

    τ = softplus(δ) > 0                                   equation (22)
    ρ = sigmoid(γ) − ½ = ½ tanh(γ/2) in (−½, ½)           equation (23)
    t = tanh(γ/4), the moving-average coefficient of ρ    (correlation.py)

Going from γ to t directly keeps full precision where ρ in float32 has lost it: at |γ| = 10, 1 − 2|ρ| is 9e-5.

The guards keep raw parameters where value and gradient stay finite, by one of two rules. "closed_form" has what the
closed form of the law needs: |m| ≥ 1e-6, τ not vanishing, |γ| ≤ 10. "paper" is the pseudocode's own list, which also
keeps |ρ| ≥ 0.01 (its equation (20) divides by c, hence by ρ) and throws a coin for the sign of what is too small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tribayes._errors import refusal

SMALLEST_MEAN = 1e-6  # the paper's bound: below it, ln m² and its derivative 1/m run away
LARGEST_GAMMA = 10.0  # the paper's bound: |ρ| ≤ 0.49995

Sources = Mapping[torch.device, torch.Generator | None]


def tau_of(delta: Tensor) -> Tensor:
    """τ = ln(1 + exp δ)."""
    return F.softplus(delta)


def delta_of(tau: Tensor) -> Tensor:
    """The inverse of `tau_of`, without overflow for large τ or cancellation for small."""
    return tau + torch.log(-torch.expm1(-tau))


@torch.no_grad()
def rescale_(delta: Tensor, factor: float) -> None:
    """Multiply in place what δ stands for."""
    delta.copy_(delta_of(factor * tau_of(delta.double())))


def rho_of(gamma: Tensor) -> Tensor:
    """ρ = sigmoid(γ) − ½, written as a tanh so that small γ keep their digits."""
    return 0.5 * torch.tanh(0.5 * gamma)


def gamma_of(rho: Tensor) -> Tensor:
    """The inverse of `rho_of`."""
    return 2 * torch.atanh(2 * rho)


def coefficient_of(gamma: Tensor) -> Tensor:
    """t = tanh(γ/4), so that t / (1 + t²) = ρ."""
    return torch.tanh(0.25 * gamma)


@dataclass(frozen=True)
class Rule:
    """The bounds of one set of guards."""

    name: str
    smallest_delta: float
    smallest_gamma: float  # in absolute value
    coin_for_sign: bool  # a value pushed out of an interval around 0 goes to a random side


RULES = {
    # τ ≥ 4.5e-5: far under any useful noise, far over float32's underflow
    "closed_form": Rule("closed_form", smallest_delta=-10.0, smallest_gamma=0.0, coin_for_sign=False),
    "paper": Rule("paper", smallest_delta=-4.600166, smallest_gamma=0.04000533, coin_for_sign=True),
}


def rule_of(name: str) -> Rule:
    if name not in RULES:
        raise refusal("rule", name, f"be one of {sorted(RULES)}", "correct the word")
    return RULES[name]


def guard_means_(means: Sequence[Tensor], rule: Rule, sources: Sources) -> None:
    """Move means closer to zero than 1e-6 out to ±1e-6, in place."""
    for mean in means:
        if not rule.coin_for_sign:
            torch.copysign(mean.abs().clamp_(min=SMALLEST_MEAN), mean, out=mean)
        # looking takes a tenth of throwing coins, and there is hardly ever anything to move
        elif not mean.is_cpu or torch.compiler.is_compiling() or (mean.abs() < SMALLEST_MEAN).any().item():
            _leave_interval_(mean, SMALLEST_MEAN, sources)


def guard_gamma_(gamma: Tensor, rule: Rule, sources: Sources) -> None:
    """Keep ρ off ±½ and, under the paper's rule, off 0, in place."""
    if rule.smallest_gamma:
        _leave_interval_(gamma, rule.smallest_gamma, sources)
    gamma.clamp_(-LARGEST_GAMMA, LARGEST_GAMMA)


def _leave_interval_(values: Tensor, bound: float, sources: Sources) -> None:
    """Set what lies in the open interval (−bound, bound) to bound or −bound with probability ½ each."""
    coin = torch.empty_like(values).bernoulli_(0.5, generator=sources[values.device])
    values.copy_(torch.where(values.abs() < bound, bound * (2 * coin - 1), values))
