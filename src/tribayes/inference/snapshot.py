"""The numbers of a model and its objective, kept aside and put back: parameters and buffers, in place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from tribayes.posterior.prior import TensorPrior


class Snapshot:
    """A copy of every parameter and buffer of some modules, on their devices.

    But for priors: no training changes them, and one that was set meanwhile stays.

    Example:
        >>> layer = nn.Linear(2, 1)
        >>> kept = Snapshot([layer])
        >>> before = layer.weight.detach().clone()
        >>> torch.nn.init.zeros_(layer.weight).sum().item()
        0.0
        >>> kept.restore()
        >>> torch.equal(layer.weight, before)
        True
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self._modules = modules
        self._kept: dict[str, Tensor] = {}
        self.take()

    @torch.no_grad()
    def take(self) -> None:
        """Keep what they are now."""
        for name, value in self._tensors():
            kept = self._kept.get(name)
            if kept is None or kept.shape != value.shape:
                self._kept[name] = value.detach().clone()
            else:
                kept.copy_(value)

    @torch.no_grad()
    def restore(self) -> None:
        """Put it back."""
        for name, value in self._tensors():
            if name in self._kept:
                value.copy_(self._kept[name])

    def _tensors(self) -> Iterator[tuple[str, Tensor]]:
        for number, module in enumerate(self._modules):
            priors = {buffer for part in module.modules() if isinstance(part, TensorPrior) for buffer in part.buffers()}
            for name, value in (*module.named_parameters(), *module.named_buffers()):
                if value not in priors:
                    yield f"{number}.{name}", value


class Statistics:
    """The running statistics of normalisation layers, which a pass changes: kept before it, at a few microseconds."""

    def __init__(self, model: nn.Module) -> None:
        layers = [one for one in model.modules() if isinstance(one, nn.modules.batchnorm._NormBase)]
        self._values = [buffer for layer in layers for buffer in layer.buffers(recurse=False)]
        self._kept = [value.clone() for value in self._values]

    def take(self) -> None:
        """Keep what they are now."""
        if self._values:
            torch._foreach_copy_(self._kept, self._values)

    def restore(self) -> None:
        """Put them back."""
        if self._values:
            torch._foreach_copy_(self._values, self._kept)
