"""SWAG (Maddox et al. 2019): a normal fitted to the weights that training passes through near its end.

Its covariance is half a diagonal, half of low rank: ½ diag(v) + D Dᵀ / (2 (R − 1)), D the last R deviations from the
running mean.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import torch
from torch import Tensor, nn

RANK = 20


class Passage:
    """Mean, second moment and last deviations of the weights seen."""

    def __init__(self, rank: int = RANK) -> None:
        self.count = 0
        self.deviations: deque[Tensor] = deque(maxlen=rank)

    @torch.no_grad()
    def see(self, weights: Tensor) -> None:
        """Take these flat weights in."""
        if not self.count:
            self.mean, self.square = torch.zeros_like(weights), torch.zeros_like(weights)
        self.count += 1
        self.mean.lerp_(weights, 1 / self.count)
        self.square.lerp_(weights.square(), 1 / self.count)
        self.deviations.append(weights - self.mean)

    @torch.no_grad()
    def sample(self, generator: torch.Generator) -> Tensor:
        """Flat weights from the normal."""
        spread = (self.square - self.mean.square()).clamp(min=0).sqrt()
        drawn = self.mean + spread * _normals(len(self.mean), self.mean, generator) / 2**0.5
        if len(self.deviations) > 1:
            factors = _normals(len(self.deviations), self.mean, generator) / (2 * (len(self.deviations) - 1)) ** 0.5
            for factor, deviation in zip(factors, self.deviations, strict=True):
                drawn = drawn.addcmul_(factor, deviation)
        return drawn


def flat(network: nn.Module) -> Tensor:
    """A copy of all parameters, end to end, whatever their memory layout."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in network.parameters()])


@torch.no_grad()
def put(weights: Tensor, network: nn.Module) -> None:
    """The way back; the parameters stay where they lie."""
    parameters = list(network.parameters())
    pieces = weights.split([parameter.numel() for parameter in parameters])
    for parameter, piece in zip(parameters, pieces, strict=True):
        parameter.copy_(piece.view(parameter.shape))


@torch.no_grad()
def renew_statistics(network: nn.Module, batches: Iterable[Tensor]) -> None:
    """BatchNorm's running statistics for the weights the network has now: plain means over the batches."""
    norms = [one for one in network.modules() if isinstance(one, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    before = [norm.momentum for norm in norms]
    network.train()
    for number, images in enumerate(batches, start=1):
        for norm in norms:
            norm.momentum = 1 / number
        network(images)
    for norm, momentum in zip(norms, before, strict=True):
        norm.momentum = momentum


def _normals(count: int, like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(count, generator=generator, device=like.device, dtype=like.dtype)
