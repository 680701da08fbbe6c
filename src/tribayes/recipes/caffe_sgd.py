"""Stochastic gradient descent with momentum as Caffe does it: v ← μ v + lr (g + decay · w), w ← w − v.

torch's SGD multiplies by the learning rate after the momentum; with a decaying rate that is another path. Here torch's
fused update multiplies the gradient by the rate, by way of the scale that it divides gradients by, and has a rate of
its own that never changes: the parameter's multiplier. So a recorded step can change its rate, in one launch per
multiplier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Parameter:
    """What is learned, with its multiplier of the learning rate and its L2 penalty."""

    name: str
    value: Tensor
    multiplier: float = 1.0
    decay: float = 0.0


class CaffeSGD(torch.optim.SGD):
    """The optimizer; its only state is a velocity for each parameter, without the multiplier.

    `inverse_rate` is one over the learning rate, a scalar tensor on the parameters' device: set it before each step.
    """

    def __init__(self, parameters: Sequence[Parameter], momentum: float) -> None:
        multipliers = sorted({parameter.multiplier for parameter in parameters})
        groups = [{"params": [p.value for p in parameters if p.multiplier == m], "lr": m} for m in multipliers]
        super().__init__(groups, momentum=momentum, fused=True)
        self._names = [parameter.name for parameter in parameters]
        self._values = [parameter.value for parameter in parameters]
        self._decays = [parameter.decay for parameter in parameters]
        for value in self._values:
            self.state[value]["momentum_buffer"] = torch.zeros_like(value)
        self.inverse_rate = torch.ones((), device=self._values[0].device)
        self.found_inf = torch.zeros((), device=self._values[0].device)  # torch wants it beside a scale

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update."""
        gradients = self._gradients()
        if any(self._decays):
            torch._foreach_add_(gradients, list(torch._foreach_mul(self._values, self._decays)))
        self.grad_scale = self.inverse_rate
        return super().step(closure)

    def _gradients(self) -> list[Tensor]:
        gradients = [value.grad for value in self._values]
        missing = [name for name, gradient in zip(self._names, gradients, strict=True) if gradient is None]
        if missing:
            raise RuntimeError(f"no gradient reached {', '.join(missing)}")
        return [gradient for gradient in gradients if gradient is not None]
