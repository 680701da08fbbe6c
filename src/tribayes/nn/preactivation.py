"""What a random weight tensor does to a given input: the law of y = W ∗ x, for linear layers and convolutions.

With independent normals z_0 … z_K the weights are w_k = m_k + s_k (α z_k + β z_{k−1}): scales s, α² + β² = 1, αβ = ρ
(posterior/correlation.py; without correlation α = 1, β = 0). Row o of W holds I of them, in row-major order. A normal
between two weights of one row touches no other row; only the normal between two rows is shared, by these two. So

    y_o = Σ_i m_oi x_i  +  √v_o n_o  +  β s_o1 x_1 z_{o−1}  +  α s_oI x_I z_o,     n and z independent normals,
    v_o = Σ_i f_i s_oi² x_i²  +  2ρ Σ_{i<I} s_oi s_{o,i+1} x_i x_{i+1},     f = 1 but f_1 = 1 − β² and f_I = 1 − α²

exactly, and all of it has the moments

    Var y_o = Σ_i s_oi² x_i² + 2ρ Σ_{i<I} s_oi s_{o,i+1} x_i x_{i+1},     Cov(y_o, y_{o+1}) = ρ s_oI s_{o+1,1} x_I x_1.

A convolution does this at every position, with the patch (channel, *size) for x. Neighbours in the patch differ by one
step along the last axis, or are the end of one line and the start of the next, or the end of one channel and the start
of the next: for each kind, a small kernel slides over the product of two shifted images. No patch is written out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from tribayes._errors import refusal
from tribayes.posterior import correlation
from tribayes.posterior.distributions import FactorisedNormal, TridiagonalNormal
from tribayes.posterior.family import Law

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
        if padding == "same":  # torch puts the odd one after
            reach = [step * (length - 1) for step, length in zip(steps, size, strict=True)]
            edges = tuple((total // 2, total - total // 2) for total in reach)
        else:
            width = 0 if isinstance(padding, str) else padding
            edges = tuple((edge, edge) for edge in _each(width, len(size)))
        return cls(_each(stride, len(size)), edges, steps, groups)

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


@dataclass(frozen=True)
class WeightNoise:
    """Means m and scales s of a weight tensor (O, I / groups, *size), and (α, β); None for uncorrelated weights."""

    mean: Tensor
    scale: Tensor
    mixing: tuple[Tensor, Tensor] | None

    @classmethod
    def of(cls, law: Law, shape: torch.Size) -> WeightNoise:
        """The noise of a law of K flattened weights, in their own shape."""
        mean = law.mean.reshape(shape)
        if isinstance(law, TridiagonalNormal):
            return cls(mean, law.stddev.reshape(shape), correlation.mixing(law.coefficient))
        if isinstance(law, FactorisedNormal):
            return cls(mean, law.base_dist.scale.expand(law.mean.shape).reshape(shape), None)
        known = "give laws whose neighbour correlation is known, TridiagonalNormal or FactorisedNormal"
        remedy = 'use estimator="plain" and sampled networks, which need only draws'
        raise refusal("family", type(law).__name__, known, remedy)


@dataclass(frozen=True)
class Preactivation:
    """The law of y for given inputs. Tensors have the shape of y, (..., O, *space); outputs lie along `axis`."""

    mean: Tensor
    inner: Tensor  # v: the variance from normals of one output alone
    ends: tuple[Tensor, Tensor] | None  # β s_o1 x_1 and α s_oI x_I, the shares in normals of two; None without ρ
    axis: int

    @property
    def variance(self) -> Tensor:
        """Var y, of the shape of y."""
        return self.inner if self.ends is None else self.inner + self.ends[0].square() + self.ends[1].square()

    @property
    def beside(self) -> Tensor | None:
        """Cov(y_o, y_{o+1}), an output fewer than y; None where all are zero."""
        if self.ends is None:
            return None
        first, last = self.ends
        return torch.mul(*_apart(last, first, self.axis, 1))


def preactivation(noise: WeightNoise, inputs: Tensor, window: Window) -> Preactivation:
    """The law of y = W ∗ x for given inputs x, (..., I, *space), at the law's own precision.

    Example:
        >>> noise = WeightNoise.of(TridiagonalNormal(torch.ones(12), 0.1, -0.3), torch.Size([3, 4]))
        >>> preactivation(noise, torch.randn(5, 4), Window()).variance.shape
        torch.Size([5, 3])
    """
    with torch.autocast(inputs.device.type, enabled=False):
        padded = window.padded(inputs.to(noise.mean.dtype))
        mean = window.slide(padded, noise.mean)
        if noise.mixing is None:
            return Preactivation(mean, window.slide(padded.square(), noise.scale.square()), None, window.channels)
        alpha, beta = noise.mixing
        inner = window.slide(padded.square(), noise.scale.square() * _own_shares(noise.scale, alpha, beta))
        image = padded.unflatten(window.channels, (window.groups, noise.scale.shape[1]))  # neighbours are of one group
        for kernel, products in _neighbours(noise.scale, image, window):
            inner = inner + 2 * alpha * beta * window.slide(products, kernel)
        first, last = _ends(noise.scale, image, window, mean.shape)
        return Preactivation(mean, inner, (beta * first, alpha * last), window.channels)


def _own_shares(scale: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """f, (1, I, *size): the share of a weight's variance that no other row sees."""
    shape, weights = scale[:1].shape, scale[0].numel()
    place = torch.arange(weights, device=scale.device)
    return (1 - beta.square() * (place == 0) - alpha.square() * (place == weights - 1)).reshape(shape)


def _neighbours(scale: Tensor, image: Tensor, window: Window) -> Iterator[tuple[Tensor, Tensor]]:
    """(kernel of s_i s_{i+1}, image of x_i x_{i+1}) for each kind of neighbours.

    From a weight to its successor one axis of (channel, *size) goes up by a step, those after it fall back from their
    end to their start, and those before it stay.
    """
    size = scale.shape[1:]
    steps = (1, *window.dilation)
    for rising in range(len(size)):
        if size[rising] == 1:
            continue
        one, other = _apart(scale, scale, rising - len(size), 1)
        x, x_next = _apart(image, image, rising - len(size), steps[rising])
        for axis in range(rising + 1, len(size)):
            place, back = axis - len(size), size[axis] - 1
            one, other = one.narrow(place, back, 1), other.narrow(place, 0, 1)
            x_next, x = _apart(x_next, x, place, back * steps[axis])
        yield one * other, (x * x_next).flatten(window.channels - 1, window.channels)


def _apart(before: Tensor, after: Tensor, axis: int, distance: int) -> tuple[Tensor, Tensor]:
    """Entries of `before` and, `distance` further along the axis, their partners in `after`."""
    length = before.shape[axis] - distance
    return before.narrow(axis, 0, length), after.narrow(axis, distance, length)


def _ends(scale: Tensor, image: Tensor, window: Window, shape: torch.Size) -> tuple[Tensor, Tensor]:
    """s_o1 x_1 and s_oI x_I of every output, both of the shape of y."""
    size = scale.shape[1:]
    x_first, x_last = image.select(window.channels, 0), image.select(window.channels, size[0] - 1)  # (..., G, *space)
    for axis in range(-window.axes, 0):
        stride, reach = window.stride[axis], (size[axis] - 1) * window.dilation[axis]
        place = torch.arange(shape[axis], device=image.device) * stride
        x_first, x_last = x_first.index_select(axis, place), x_last.index_select(axis, place + reach)
    rows = scale.flatten(1).reshape(len(scale), -1, *[1] * window.axes)
    x_first, x_last = (x.repeat_interleave(len(rows) // window.groups, window.channels) for x in (x_first, x_last))
    return rows[:, 0] * x_first, rows[:, -1] * x_last
