"""A schedule that sets one rate or one momentum for all groups erases what δ and γ were given: noticed, said once."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from tribayes.inference.steady import MARK

GIVEN = "given_lr"  # a group's rate as `parameter_groups` chose it: a scheduler may overwrite "lr" before anyone looks

_SMALL = 0.01  # of the least rate given: schedules may end together in a last small rate


class RateWatch:
    """Looks whether the groups of an optimizer still have rates of their own, and steady ones no momentum.

    Costs a comparison of a few numbers; rates that lie in tensors are not looked at, for that would wait for a GPU.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        given = [group.get(GIVEN, group["lr"]) for group in optimizer.param_groups]
        self._given = [] if any(isinstance(rate, Tensor) for rate in given) else given
        self._differ = len(set(self._given)) > 1
        self._said = False

    def look(self) -> None:
        """Warn if all rates have become one, though they were given different, or δ and γ got a momentum; once."""
        if self._said:
            return
        groups = self._optimizer.param_groups
        words = ""
        if self._differ and self._are_one():
            words = self._words(groups[0]["lr"])
        elif any(group.get(MARK) and group.get("momentum") for group in groups):
            words = _MOMENTUM
        if words:
            self._said = True
            warnings.warn(words, UserWarning, stacklevel=3)

    def _are_one(self) -> bool:
        rates = [group["lr"] for group in self._optimizer.param_groups]
        rate = rates[0]
        if isinstance(rate, Tensor) or any(other is not rate and other != rate for other in rates[1:]):
            return False
        return bool(rate >= _SMALL * min(self._given))

    def _words(self, rate: float) -> str:
        names = [str(group.get("name", number)) for number, group in enumerate(self._optimizer.param_groups)]
        given = ", ".join(f"{name} {rate:g}" for name, rate in zip(names, self._given, strict=True))
        return (
            f"all parameter groups now learn with {rate:g}, but were given {given}: a schedule that sets one rate for "
            "all (OneCycleLR(max_lr=0.1), or a loop over optimizer.param_groups) erases those of the scales δ and "
            "correlations γ. Give it one for each group, max_lr=[group['lr'] for group in groups] and "
            "cycle_momentum=False, or use one that multiplies, such as LambdaLR or CosineAnnealingLR."
        )


_MOMENTUM = (
    "the scales δ and correlations γ have got a momentum: their gradients are divided by their running size, so their "
    "steps became up to 1 / (1 - momentum) times as long. OneCycleLR and CyclicLR cycle the momentum of all groups: "
    "pass cycle_momentum=False, or base_momentum and max_momentum as lists with 0 for these groups."
)
