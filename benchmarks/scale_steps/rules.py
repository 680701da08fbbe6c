"""The candidates: what becomes of the gradients of δ and γ, for many trainings at once.

Training is elementwise in the candidates, so they are stacked: raw parameters are (A, S), A candidates and S seeds,
means (A, S, K). The formulas are torch's (tests/benchmarks/test_scale_steps.py compares them).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.scale_steps.fisher import natural_gradient, natural_scale
from benchmarks.scale_steps.problem import Problem, Slopes
from tribayes.inference.optim import KAPPA
from tribayes.inference.steady import rescale_
from tribayes.posterior.parametrisation import LARGEST_GAMMA, RULES, coefficient_of, tau_of

RATE = 0.01  # the default of δ and γ
MEAN_RATES = (1e-3, 1e-2, 1e-1)
MOMENTUM = 0.9
BETAS, EPSILON = (0.9, 0.999), 1e-8  # Adam's defaults
DECAY = 0.01  # AdamW's default
LIMITS = {"natural": 1.0, "natural_wide": 10.0}  # of a natural gradient, before its rate
WIDE_RATE = 2 * RATE  # F_δδ is about 2K: as fast at first as g/(νK) and g/√v at 0.01

TITLES = {
    "steady": "steady, g/√v",
    "adam": "Adam",
    "natural": "natural gradient, clipped",
    "natural_wide": "natural gradient, 0.02, wide clip",
    "per_weight": "g/(νK)",
    "sign": "sign of g",
    "paper": "the paper's, κ = 50",
}


@dataclass(frozen=True)
class Arm:
    """A rule for δ and γ, beside an optimizer of the means."""

    rule: str
    optimizer: str  # "SGD", "Adam", "AdamW"
    lr: float  # of the means
    rate: float = RATE  # of δ and γ; the paper's rule takes it from lr


def default_arm(rule: str) -> Arm:
    """A rule at its one rate, beside SGD at 0.01."""
    return Arm(rule, "SGD", 1e-2, WIDE_RATE if rule == "natural_wide" else RATE)


def all_arms() -> list[Arm]:
    """Every rule beside SGD and Adam at three rates; a tenfold rate where there is one; AdamW where it is whole."""
    first = [rule for rule in TITLES if rule != "natural_wide"]
    arms = [Arm(rule, name, lr) for name in ("SGD", "Adam") for lr in MEAN_RATES for rule in first]
    arms += [Arm("adam", "AdamW", lr) for lr in MEAN_RATES]
    arms += [Arm(rule, "SGD", 1e-2, 10 * RATE) for rule in first if rule != "paper"]
    return [*arms, default_arm("natural_wide")]  # added when the results of the others were known


class Adam:
    """Adam's running means over a stack."""

    def __init__(self, like: Tensor) -> None:
        self.first, self.second = torch.zeros_like(like), torch.zeros_like(like)

    def direction(self, gradient: Tensor, step: int) -> Tensor:
        """m̂ / (√v̂ + ε) at the step of this number, from 1."""
        self.first.lerp_(gradient, 1 - BETAS[0])
        self.second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        root = self.second.sqrt().div_((1 - BETAS[1] ** step) ** 0.5).add_(EPSILON)
        return torch.div(self.first, root, out=root).div_(1 - BETAS[0] ** step)


class Means:
    """The means of all arms, each by its own optimizer."""

    def __init__(self, arms: Sequence[Arm], problem: Problem) -> None:
        self.values = problem.best.repeat(len(arms), 1, 1)
        self._rates = torch.tensor([arm.lr for arm in arms], device=self.values.device)[:, None, None]
        self._decays = [arm.optimizer == "AdamW" for arm in arms]
        self._adaptive = sum(arm.optimizer != "SGD" for arm in arms)
        if any(arm.optimizer == "SGD" for arm in arms[: self._adaptive]):
            raise ValueError("arms of Adam come first")
        self._adam = Adam(self.values[: self._adaptive])
        self._buffer = torch.zeros_like(self.values[self._adaptive :])

    def step(self, gradient: Tensor, share: float, number: int) -> None:
        """`share` is the schedule's."""
        count, rates = self._adaptive, share * self._rates
        for row, decays in enumerate(self._decays):
            if decays:
                self.values[row].mul_(1 - rates[row] * DECAY)
        if count:
            moved = self._adam.direction(gradient[:count], number)
            self.values[:count].sub_(moved.mul_(rates[:count]))
        if count < len(self._decays):
            self._buffer.mul_(MOMENTUM).add_(gradient[count:])
            self.values[count:].addcmul_(self._buffer, rates[count:], value=-1)


class Raw:
    """δ and γ of all arms, as (2, A, S); without correlation γ stays."""

    def __init__(self, arms: Sequence[Arm], problem: Problem, start: Tensor) -> None:
        self.values = start.expand(2, len(arms), len(problem.best)).clone()
        self._arms, self._problem = arms, problem
        self._rows = {
            rule: torch.tensor([place for place, arm in enumerate(arms) if arm.rule == rule], device=start.device)
            for rule in dict.fromkeys(arm.rule for arm in arms)
        }
        rates = torch.tensor([arm.rate for arm in arms], device=start.device).expand(2, -1).clone().double()
        for place, arm in enumerate(arms):
            if arm.rule == "paper":
                rates[0, place], rates[1, place] = arm.lr, KAPPA * arm.lr
        self._rates = rates.unsqueeze(-1)
        self._adam = Adam(self.values)
        self._squares: Tensor | None = None
        self._buffer = torch.zeros_like(self.values)
        self._by_adam = torch.tensor([arm.optimizer != "SGD" for arm in arms], device=start.device)[:, None]

    def tau_and_t(self) -> tuple[Tensor, Tensor]:
        return tau_of(self.values[0]), coefficient_of(self.values[1])

    def step(self, slopes: Slopes, share: float, number: int) -> None:
        tau, t = self.tau_and_t()
        chain = torch.stack([torch.sigmoid(self.values[0]), (1 - t.square()) / 4])  # ∂τ/∂δ, ∂t/∂γ
        gradient = torch.stack([slopes.tau, slopes.t]) * chain
        direction, by_adam = torch.empty_like(gradient), self._adam.direction(gradient, number)
        found = {
            "natural": lambda: self._natural(tau, t, slopes, chain, "natural"),
            "natural_wide": lambda: self._natural(tau, t, slopes, chain, "natural_wide"),
            "per_weight": lambda: gradient / (self._problem.nu * self._problem.size),
            "sign": lambda: gradient.sign(),
            "steady": lambda: self._steady(gradient),
            "adam": lambda: by_adam,
            "paper": lambda: torch.where(self._by_adam, by_adam, self._with_momentum(gradient)),
        }
        for rule, rows in self._rows.items():
            direction[:, rows] = found[rule]()[:, rows]
        if not self._problem.rho:
            direction[1] = 0
        self.values -= share * self._rates * direction
        self.values[0].clamp_(min=RULES["closed_form"].smallest_delta)
        self.values[1].clamp_(-LARGEST_GAMMA, LARGEST_GAMMA)

    def _natural(self, tau: Tensor, t: Tensor, slopes: Slopes, chain: Tensor, rule: str) -> Tensor:
        size, nu = self._problem.size, self._problem.nu
        if self._problem.rho:
            pair = natural_gradient(tau, t, size, slopes.tau, slopes.t)
        else:
            pair = natural_scale(tau, size, slopes.tau), torch.zeros_like(t)
        return (torch.stack(pair) / chain / nu).clamp_(-LIMITS[rule], LIMITS[rule])

    def _steady(self, gradient: Tensor) -> Tensor:
        """The product's own function."""
        own = gradient.clone()
        self._squares = gradient.square() if self._squares is None else self._squares
        rescale_([own], [self._squares])
        return own

    def _with_momentum(self, gradient: Tensor) -> Tensor:
        self._buffer.mul_(MOMENTUM).add_(gradient)
        return self._buffer
