"""Networks with random weights: the wrapper, the conversion, and drop-in layers, which are torch's own, wrapped."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import nn

from tribayes.nn.conversion import Options
from tribayes.nn.module import BayesianModule

__all__ = [
    "BayesianModule",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Embedding",
    "Linear",
]

_OPTIONS = {*Options.__annotations__, "generator"}


class _BayesianLayer(BayesianModule):
    """Takes the arguments of the torch layer, and the keywords of `tribayes.to_bayesian`."""

    layer: ClassVar[type[nn.Module]]

    def __init_subclass__(cls, layer: type[nn.Module] | None = None) -> None:
        cls.layer = layer or cls.layer

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        options = {name: kwargs.pop(name) for name in _OPTIONS & kwargs.keys()}
        super().__init__(self.layer(*args, **kwargs), **options)


class Linear(_BayesianLayer, layer=nn.Linear):
    """`torch.nn.Linear` with random weights.

    Example:
        >>> Linear(784, 100, tau=0.1)(torch.randn(2, 784)).shape
        torch.Size([2, 100])
    """


class Conv1d(_BayesianLayer, layer=nn.Conv1d):
    """`torch.nn.Conv1d` with random weights.

    Example:
        >>> Conv1d(3, 5, kernel_size=3, tau=0.1)(torch.randn(2, 3, 8)).shape
        torch.Size([2, 5, 6])
    """


class Conv2d(_BayesianLayer, layer=nn.Conv2d):
    """`torch.nn.Conv2d` with random weights.

    Example:
        >>> Conv2d(3, 5, kernel_size=3, tau=0.1)(torch.randn(2, 3, 8, 8)).shape
        torch.Size([2, 5, 6, 6])
    """


class Conv3d(_BayesianLayer, layer=nn.Conv3d):
    """`torch.nn.Conv3d` with random weights.

    Example:
        >>> Conv3d(3, 5, kernel_size=3, tau=0.1)(torch.randn(2, 3, 8, 8, 8)).shape
        torch.Size([2, 5, 6, 6, 6])
    """


class ConvTranspose1d(_BayesianLayer, layer=nn.ConvTranspose1d):
    """`torch.nn.ConvTranspose1d` with random weights.

    Example:
        >>> ConvTranspose1d(3, 5, kernel_size=3, tau=0.1)(torch.randn(2, 3, 8)).shape
        torch.Size([2, 5, 10])
    """


class ConvTranspose2d(_BayesianLayer, layer=nn.ConvTranspose2d):
    """`torch.nn.ConvTranspose2d` with random weights.

    Example:
        >>> ConvTranspose2d(3, 5, kernel_size=3, tau=0.1)(torch.randn(2, 3, 8, 8)).shape
        torch.Size([2, 5, 10, 10])
    """


class ConvTranspose3d(_BayesianLayer, layer=nn.ConvTranspose3d):
    """`torch.nn.ConvTranspose3d` with random weights.

    Example:
        >>> ConvTranspose3d(3, 5, kernel_size=3, tau=0.1)(torch.randn(2, 3, 8, 8, 8)).shape
        torch.Size([2, 5, 10, 10, 10])
    """


class Embedding(_BayesianLayer, layer=nn.Embedding):
    """`torch.nn.Embedding` with random vectors.

    Example:
        >>> Embedding(100, 16, tau=0.1)(torch.tensor([[1, 2, 3]])).shape
        torch.Size([1, 3, 16])
    """
