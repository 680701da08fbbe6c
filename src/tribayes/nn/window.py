"""How a layer slides its weights over its inputs: one description for linear layers and convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import torch.nn.functional as F
from torch import Tensor

_CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}  # by spatial axes

Steps = int | Sequence[int]


@dataclass(frozen=True)
class Window:
    """Stride, padding (before, after) and dilation for each spatial axis; a linear layer has no such axis.

    Inputs are (..., I, *space), outputs (..., O, *space), kernels (O, I / groups, *size).

    Example:
        >>> Window.of((3, 3), stride=2, padding="valid")
        Window(stride=(2, 2), padding=((0, 0), (0, 0)), dilation=(1, 1), groups=1)
    """

    stride: tuple[int, ...] = ()
    padding: tuple[tuple[int, int], ...] = ()
    dilation: tuple[int, ...] = ()
    groups: int = 1

    @classmethod
    def of(
        cls, size: Sequence[int], stride: Steps = 1, padding: Steps | str = 0, dilation: Steps = 1, groups: int = 1
    ) -> Self:
        """From the arguments of torch's convolutions, for a kernel of this size."""
        steps = _each(dilation, len(size))
        return cls(_each(stride, len(size)), _edges(size, padding, steps), steps, groups)

    @property
    def axes(self) -> int:
        """The number of spatial axes."""
        return len(self.stride)

    @property
    def channels(self) -> int:
        """The axis of inputs and outputs that holds the channels (or features), counted from the end."""
        return -1 - self.axes

    def padded(self, inputs: Tensor) -> Tensor:
        """The inputs with zeros around them."""
        edges = [edge for pair in reversed(self.padding) for edge in pair]  # torch begins with the last axis
        return F.pad(inputs, edges) if any(edges) else inputs

    def slide(self, padded: Tensor, kernel: Tensor) -> Tensor:
        """The kernel over padded inputs."""
        if not self.axes:
            return F.linear(padded, kernel)
        return _CONVOLUTIONS[self.axes](padded, kernel, None, self.stride, 0, self.dilation, self.groups)


def _each(value: Steps, axes: int) -> tuple[int, ...]:
    """A value for each axis."""
    if isinstance(value, int):
        return (value,) * axes
    return tuple(value) if len(value) == axes else tuple(value) * axes


def _edges(size: Sequence[int], padding: Steps | str, dilation: Sequence[int]) -> tuple[tuple[int, int], ...]:
    if padding == "same":  # torch puts the odd one after
        reach = [step * (length - 1) for step, length in zip(dilation, size, strict=True)]
        return tuple((total // 2, total - total // 2) for total in reach)
    width = 0 if isinstance(padding, str) else padding
    return tuple((edge, edge) for edge in _each(width, len(size)))
