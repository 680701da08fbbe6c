"""A compiled network's convolutions in the form a GPU's tensor cores like: the same sums, other shapes.

cuDNN is slow where channels are few or their number odd, as in LeNet (1 → 20 → 50). A convolution over few numbers
becomes a product of matrices: its windows, cut out by the compiled code, times its filters. Odd channels are filled up
with zeros. Networks with 32, 64, … channels are not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tribayes.nn.twin import is_compiled

_WINDOW = 64  # numbers a window has at most to be cut out
_ODD = 8  # channels that are no multiple of this are filled up,
_EVEN = 32  # to a multiple of this

Sizes = int | Sequence[int]


class _ForTensorCores(TorchFunctionMode):
    """While torch.compile traces: convolutions on a GPU in the form that is faster there."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        del types
        if func is torch.conv2d and torch.compiler.is_compiling():
            return _convolution(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


_MODE = _ForTensorCores()  # one for all: torch.compile asks whether it is the one that was there when it traced


def for_tensor_cores(model: nn.Module) -> AbstractContextManager[object]:
    """The mode where something of the model is compiled, by torch.compile's wrapper or in place; else nothing."""
    compiled = (is_compiled(module) or module._compiled_call_impl is not None for module in model.modules())
    return _MODE if any(compiled) else nullcontext()


def _convolution(
    input: Tensor,  # noqa: A002 - torch's name, which a caller may use
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """`torch.conv2d`, whose arguments these are."""
    if _on_a_gpu(input) and input.ndim == 4 and groups == 1 and not isinstance(padding, str):
        few, odd = weight[0].numel() <= _WINDOW, any(size % _ODD for size in weight.shape[:2])
        if few and _in_half(weight):
            return by_windows(input, weight, bias, stride, padding, dilation)
        if odd and not few:
            return by_filling_up(input, weight, bias, stride, padding, dilation)
    return torch.conv2d(input, weight, bias, stride, padding, dilation, groups)


def _on_a_gpu(images: Tensor) -> bool:
    return images.is_cuda


def _in_half(weight: Tensor) -> bool:
    """Whether a product would be in half precision. In float32 it would not, as a convolution may, be in TF32."""
    return weight.dtype.itemsize < 4 or torch.is_autocast_enabled(weight.device.type)


def by_windows(images: Tensor, weight: Tensor, bias: Tensor | None, *sizes: Sizes) -> Tensor:
    """A convolution as one product of matrices: a row for every window, a column for every filter."""
    stride, (top, left), dilation = (_pair(size) for size in sizes)
    windows = F.pad(images, (left, left, top, top))
    for axis, step, apart in zip((2, 3), stride, dilation, strict=True):
        windows = windows.unfold(axis, apart * (weight.shape[axis] - 1) + 1, step)[..., ::apart]
    count, _, height, width = windows.shape[:4]
    rows = windows.permute(0, 2, 3, 1, 4, 5).reshape(count * height * width, -1)
    missing = -rows.shape[1] % _ODD
    sums = F.linear(F.pad(rows, (0, missing)), F.pad(weight.flatten(1), (0, missing)), bias)
    return sums.view(count, height, width, -1).permute(0, 3, 1, 2)


def by_filling_up(images: Tensor, weight: Tensor, bias: Tensor | None, *sizes: Sizes) -> Tensor:
    """The same with channels of zeros more, on both sides."""
    stride, padding, dilation = sizes
    filters, channels = weight.shape[:2]
    more = -channels % _EVEN
    wider = F.pad(images, (0, 0, 0, 0, 0, more))
    larger = F.pad(weight, (0, 0, 0, 0, 0, more, 0, -filters % _EVEN))
    sums = torch.conv2d(wider, larger, None, stride, padding, dilation)[:, :filters]
    return sums if bias is None else sums + bias[:, None, None]


def _pair(sizes: Sizes) -> tuple[int, int]:
    return (sizes, sizes) if isinstance(sizes, int) else (sizes[0], sizes[-1])
