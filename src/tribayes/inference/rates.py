"""A schedule that sets one rate for all groups erases the rates that δ and γ were given: noticed, and said once."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

GIVEN = "given_lr"  # a group's rate as `parameter_groups` chose it: a scheduler may overwrite "lr" before anyone looks

_SMALL = 0.01  # of the least rate given: schedules may end together in a last small rate


class RateWatch:
    """Looks whether the groups of an optimizer still have rates of their own.

    Costs a comparison of a few numbers; rates that lie in tensors are not looked at, for that would wait for a GPU.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        given = [group.get(GIVEN, group["lr"]) for group in optimizer.param_groups]
        self._given = [] if any(isinstance(rate, Tensor) for rate in given) else given
        self._watching = len(set(self._given)) > 1

    def look(self) -> None:
        """Warn if all rates have become one, though they were given different; once."""
        if not self._watching:
            return
        rates = [group["lr"] for group in self._optimizer.param_groups]
        rate = rates[0]
        if isinstance(rate, Tensor) or any(other is not rate and other != rate for other in rates[1:]):
            return
        if rate < _SMALL * min(self._given):
            return
        self._watching = False
        warnings.warn(self._words(rate), UserWarning, stacklevel=3)

    def _words(self, rate: float) -> str:
        names = [str(group.get("name", number)) for number, group in enumerate(self._optimizer.param_groups)]
        given = ", ".join(f"{name} {rate:g}" for name, rate in zip(names, self._given, strict=True))
        return (
            f"all parameter groups now learn with {rate:g}, but were given {given}: a schedule that sets one rate for "
            "all (OneCycleLR(max_lr=0.1), or a loop over optimizer.param_groups) erases those of the scales δ and "
            "correlations γ. Give it one for each group, max_lr=[group['lr'] for group in groups], "
            "or use one that multiplies, such as LambdaLR or CosineAnnealingLR."
        )
