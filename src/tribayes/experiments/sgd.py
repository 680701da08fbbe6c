"""Stochastic gradient descent with momentum as Caffe does it: v ← μ v + lr (g + decay · w), w ← w − v.

torch's SGD multiplies by the learning rate after the momentum; with a decaying rate that is another path. Here the
rate is a tensor on the device, so that a captured step can change it, and all parameters move in a few launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Parameter:
    """What is learned, with its multiplier of the learning rate and its L2 penalty."""

    name: str
    value: Tensor
    multiplier: float = 1.0
    decay: float = 0.0


class CaffeSGD:
    """The optimizer; its only state is a velocity for each parameter."""

    def __init__(self, parameters: Sequence[Parameter], momentum: float) -> None:
        self.names = [parameter.name for parameter in parameters]
        self.momentum = momentum
        self._values = [parameter.value for parameter in parameters]
        self._multipliers = [parameter.multiplier for parameter in parameters]
        self._decays = [parameter.decay for parameter in parameters]
        self.velocities = [torch.zeros_like(value) for value in self._values]

    def zero_grad(self) -> None:
        for value in self._values:
            value.grad = None

    @torch.no_grad()
    def step(self, rate: Tensor) -> None:
        """One update with the learning rate `rate`, a scalar tensor on the parameters' device."""
        steps = self._gradients()
        if any(self._decays):
            steps = list(torch._foreach_add(steps, torch._foreach_mul(self._values, self._decays)))
        if set(self._multipliers) != {1.0}:
            steps = list(torch._foreach_mul(steps, self._multipliers))
        torch._foreach_mul_(self.velocities, self.momentum)
        torch._foreach_add_(self.velocities, torch._foreach_mul(steps, rate))
        torch._foreach_sub_(self._values, self.velocities)

    def _gradients(self) -> list[Tensor]:
        gradients = [value.grad for value in self._values]
        missing = [name for name, gradient in zip(self.names, gradients, strict=True) if gradient is None]
        if missing:
            raise RuntimeError(f"no gradient reached {', '.join(missing)}")
        return [gradient for gradient in gradients if gradient is not None]
