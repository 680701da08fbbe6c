"""Drop-in Bayesian layers: torch's own, wrapped. The mechanism is BayesianModule's; only the names are here."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import nn

from tribayes.nn.conversion import Options
from tribayes.nn.module import BayesianModule

_OPTIONS = {*Options.__annotations__, "generator"}


class _BayesianLayer(BayesianModule):
    """Takes the arguments of the torch layer, and the keywords of `tribayes.to_bayesian`."""

    layer: ClassVar[type[nn.Module]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        options = {name: kwargs.pop(name) for name in _OPTIONS & kwargs.keys()}
        super().__init__(self.layer(*args, **kwargs), **options)


class Linear(_BayesianLayer):
    """`torch.nn.Linear` with random weights.

    Example:
        >>> Linear(784, 100, tau=0.1)(torch.randn(2, 784)).shape
        torch.Size([2, 100])
    """

    layer = nn.Linear


class Conv1d(_BayesianLayer):
    """`torch.nn.Conv1d` with random weights."""

    layer = nn.Conv1d


class Conv2d(_BayesianLayer):
    """`torch.nn.Conv2d` with random weights."""

    layer = nn.Conv2d


class Conv3d(_BayesianLayer):
    """`torch.nn.Conv3d` with random weights."""

    layer = nn.Conv3d


class ConvTranspose1d(_BayesianLayer):
    """`torch.nn.ConvTranspose1d` with random weights."""

    layer = nn.ConvTranspose1d


class ConvTranspose2d(_BayesianLayer):
    """`torch.nn.ConvTranspose2d` with random weights."""

    layer = nn.ConvTranspose2d


class ConvTranspose3d(_BayesianLayer):
    """`torch.nn.ConvTranspose3d` with random weights."""

    layer = nn.ConvTranspose3d


class Embedding(_BayesianLayer):
    """`torch.nn.Embedding` with random vectors."""

    layer = nn.Embedding
