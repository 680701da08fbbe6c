"""Stochastic gradient descent with momentum as Caffe does it: v ← μ v + lr g, w ← w − v.

torch's SGD multiplies by the learning rate after the momentum; with a decaying rate that is another path. Here the
rate is a tensor on the device, so a captured step can change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Group:
    """Parameters with a common multiplier of the learning rate and a common L2 penalty."""

    name: str
    parameters: Sequence[Tensor]
    multiplier: float = 1.0
    decay: float = 0.0


class CaffeSGD:
    """The optimizer; its only state is a velocity for each parameter."""

    def __init__(self, groups: Sequence[Group], momentum: float) -> None:
        self.groups = [group for group in groups if group.parameters]
        self.momentum = momentum
        self.velocities = [[torch.zeros_like(p) for p in group.parameters] for group in self.groups]

    def zero_grad(self) -> None:
        for group in self.groups:
            for parameter in group.parameters:
                parameter.grad = None

    @torch.no_grad()
    def step(self, rate: Tensor) -> None:
        """One update with the learning rate `rate`, a scalar tensor on the parameters' device."""
        for group, velocities in zip(self.groups, self.velocities, strict=True):
            parameters = list(group.parameters)
            gradients = [p.grad for p in parameters if p.grad is not None]
            if len(gradients) != len(velocities):
                raise RuntimeError(f"a parameter of the group {group.name!r} got no gradient")
            if group.decay:
                gradients = list(torch._foreach_add(gradients, parameters, alpha=group.decay))
            steps = torch._foreach_mul(gradients, rate * group.multiplier)
            torch._foreach_mul_(velocities, self.momentum)
            torch._foreach_add_(velocities, steps)
            torch._foreach_sub_(parameters, velocities)
