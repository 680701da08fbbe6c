"""The numerical guards: what keeps raw parameters where value and gradient stay finite.

Two rules. "closed_form" guards what the closed form of the law needs: |m| ≥ 1e-6, τ not vanishing, |γ| ≤ 10.
"paper" is the pseudocode's own list, which also keeps |ρ| ≥ 0.01 (its equation (20) divides by c, hence by ρ)
and throws a coin for the sign of every mean that is too small.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tribayes._errors import refusal
from tribayes.posterior.parametrisation import LARGEST_GAMMA, SMALLEST_DELTA, SMALLEST_MEAN


@dataclass(frozen=True)
class Rule:
    """The bounds of one set of guards."""

    name: str
    smallest_delta: float
    smallest_gamma: float  # in absolute value
    coin_for_sign: bool  # a value pushed out of an interval around 0 goes to a random side


RULES = {
    "closed_form": Rule("closed_form", smallest_delta=SMALLEST_DELTA, smallest_gamma=0.0, coin_for_sign=False),
    "paper": Rule("paper", smallest_delta=-4.600166, smallest_gamma=0.04000533, coin_for_sign=True),
}


def rule_of(name: str) -> Rule:
    if name not in RULES:
        raise refusal("rule", name, f"be one of {sorted(RULES)}", "correct the word")
    return RULES[name]


def guard_means_(means: Tensor, rule: Rule, generator: torch.Generator | None = None) -> None:
    """Move means closer to zero than 1e-6 out to ±1e-6, in place."""
    if not rule.coin_for_sign:
        torch.copysign(means.abs().clamp_(min=SMALLEST_MEAN), means, out=means)
        return
    if means.is_cpu and not torch.compiler.is_compiling() and not (means.abs() < SMALLEST_MEAN).any().item():
        return  # looking takes a tenth of throwing coins, and there is hardly ever anything to move
    _leave_interval_(means, SMALLEST_MEAN, generator)


def guard_delta_(delta: Tensor, rule: Rule) -> None:
    """Keep τ from vanishing, in place."""
    delta.clamp_(min=rule.smallest_delta)


def guard_gamma_(gamma: Tensor, rule: Rule, generator: torch.Generator | None = None) -> None:
    """Keep ρ off ±½ and, under the paper's rule, off 0, in place."""
    if rule.smallest_gamma:
        _leave_interval_(gamma, rule.smallest_gamma, generator)
    gamma.clamp_(-LARGEST_GAMMA, LARGEST_GAMMA)


def _leave_interval_(values: Tensor, bound: float, generator: torch.Generator | None) -> None:
    """Set what lies in the open interval (−bound, bound) to bound or −bound with probability ½ each."""
    coin = torch.empty_like(values).bernoulli_(0.5, generator=generator)
    values.copy_(torch.where(values.abs() < bound, bound * (2 * coin - 1), values))
