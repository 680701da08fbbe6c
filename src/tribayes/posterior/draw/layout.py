"""Where the tensors of a model lie, as the kernels want to know it: tables on the device, made once and kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import torch
from torch import Tensor

BLOCK = 2048  # entries a program works on
_GAP = 4  # normals left unused before every tensor, and what the kernels make at once
_MOST = 64  # layouts: a model needs one, which changes only when its parameters move in memory

Made = TypeVar("Made")


@dataclass(frozen=True)
class Layout:
    """The tables for some tensors; kernels.py explains their columns."""

    table: Tensor  # (blocks, 8) int64
    first: Tensor  # (T + 1,) int32: each tensor's first block
    sizes: Tensor  # (T,) float32: K of each
    tensors: int
    blocks: int
    total: int
    strided: bool  # some tensor is in channels_last memory
    aligned: bool  # every tensor begins at a multiple of 16 bytes, here and in the flat output


_kept: OrderedDict[Hashable, Any] = OrderedDict()  # by the addresses they hold: a moved tensor is never found


def _once(key: Hashable, make: Callable[[], Made]) -> Made:
    """What was made under this key, or is made now."""
    if key not in _kept:
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            raise RuntimeError("no step of this model was run before the capture of a CUDA graph: run one first")
        _kept[key] = make()
        if len(_kept) > _MOST:
            _kept.popitem(last=False)
    _kept.move_to_end(key)
    made: Made = _kept[key]
    return made


def layout_of(means: Sequence[Tensor]) -> Layout:
    """The tables for these means."""
    key = tuple((mean.data_ptr(), tuple(mean.shape), channels_last(mean)) for mean in means)
    return _once(key, lambda: _layout(means))


def prior_table(locs: Sequence[Tensor], scales: Sequence[Tensor]) -> Tensor:
    """(T, 4) int64: addresses of loc and scale, and the stride of each, 0 for a single number."""

    def make() -> Tensor:
        rows = [
            (loc.data_ptr(), scale.data_ptr(), int(loc.numel() > 1), int(scale.numel() > 1))
            for loc, scale in zip(locs, scales, strict=True)
        ]
        return torch.tensor(rows, dtype=torch.int64).to(locs[0].device)

    return _once(tuple((value.data_ptr(), value.numel()) for value in (*locs, *scales)), make)


def channels_last(tensor: Tensor) -> bool:
    """In channels_last memory and not, as with one channel or 1×1 filters, in row-major order all the same."""
    if tensor.is_contiguous():
        return False
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.ndim in formats and tensor.is_contiguous(memory_format=formats[tensor.ndim])


def _layout(means: Sequence[Tensor]) -> Layout:
    rows: list[tuple[int, ...]] = []
    first, offset, noise, aligned = [0], 0, _GAP, True
    for number, mean in enumerate(means):
        size = mean.numel()
        strided = channels_last(mean)
        channels, positions = (mean.shape[1], prod(mean.shape[2:])) if strided else (1, size)
        rows += [
            (mean.data_ptr(), start, size, number, offset, noise + start, channels, positions)
            for start in range(0, size, BLOCK)
        ]
        aligned = aligned and mean.data_ptr() % 16 == 0 and offset % 4 == 0
        first.append(len(rows))
        offset += size
        noise += -(-size // _GAP) * _GAP + _GAP
    device = means[0].device
    return Layout(
        table=torch.tensor(rows, dtype=torch.int64).to(device),
        first=torch.tensor(first, dtype=torch.int32).to(device),
        sizes=torch.tensor([mean.numel() for mean in means], dtype=torch.float32).to(device),
        blocks=len(rows),
        tensors=len(means),
        total=offset,
        strided=any(channels_last(mean) for mean in means),
        aligned=aligned,
    )
