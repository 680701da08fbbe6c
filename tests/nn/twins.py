"""What tests of twins share."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tribayes.nn.twin import Twin

X = torch.linspace(-1, 1, 12).reshape(4, 3)


def twin_of(network: nn.Module, given: dict[str, Tensor]) -> Twin:
    return Twin(network, {id(network.get_parameter(name)): value for name, value in given.items()})


class Louder(nn.Module):
    """Has a number that a schedule may change, as dropout has its share."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor, self.calls = factor, 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        return self.factor * inputs
