"""Where the tensors of a model lie, as the kernels want to know it: tables on the device, made once and kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import torch
from torch import Tensor

from tribayes._errors import refusal
from tribayes._graphs import hold

BLOCK = 2048  # entries a program works on
_GAP = 4  # normals left unused before every tensor, and what the kernels make at once
NORMALS = 2**33  # of one draw: the kernels count pairs of them in 32 bits, and would begin anew
_MOST = 1024  # tables: a Bayesian module needs a few, of other ones where its tensors move, and a network has many
_BYTES = 16  # a draw begins at a multiple of them: for weights that do not, cuDNN has kernels 14 times as slow

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
    normals: int  # how far the kernels count
    gaps: bool  # some tensor leaves a part of its room empty
    strided: bool  # some tensor is in channels_last memory
    aligned: bool  # every mean begins at a multiple of 16 bytes, as its draw does


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
    hold(made)
    return made


def layout_of(means: Sequence[Tensor], dtype: torch.dtype) -> Layout:
    """The tables for these means and draws of that dtype."""
    key = dtype.itemsize, *((mean.data_ptr(), tuple(mean.shape), channels_last(mean)) for mean in means)
    return _once(key, lambda: _layout(means, dtype))


def rooms(means: Sequence[Tensor], dtype: torch.dtype) -> list[int]:
    """How many entries of the flat output each tensor has for itself: as many as it has, up to the next 16 bytes.

    >>> rooms([torch.ones(5), torch.ones(8)], torch.float32), rooms([torch.ones(5)], torch.bfloat16)
    ([8, 8], [8])
    """
    width = _BYTES // dtype.itemsize
    return [-(-mean.numel() // width) * width for mean in means]


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


def normals_of(means: Sequence[Tensor]) -> int:
    """How far the kernels count for a draw of these, in normals; refused where they would begin anew.

    >>> normals_of([torch.ones(5), torch.ones(8)])
    28
    """
    most = _GAP + sum(-(-mean.numel() // _GAP) * _GAP + _GAP for mean in means)
    if most > NORMALS:
        requirement = "have less than 8 billion random weights: the generator of the GPU's kernels has no more normals"
        remedy = "make several Bayesian modules of its parts"
        raise refusal("model", sum(mean.numel() for mean in means), requirement, remedy)
    return most


def _layout(means: Sequence[Tensor], dtype: torch.dtype) -> Layout:
    normals = normals_of(means)
    rows: list[tuple[int, ...]] = []
    first, offset, noise = [0], 0, _GAP
    for number, (mean, room) in enumerate(zip(means, rooms(means, dtype), strict=True)):
        size = mean.numel()
        strided = channels_last(mean)
        channels, positions = (mean.shape[1], prod(mean.shape[2:])) if strided else (1, size)
        rows += [
            (mean.data_ptr(), start, size, number, offset, noise + start, channels, positions)
            for start in range(0, size, BLOCK)
        ]
        first.append(len(rows))
        offset += room
        noise += -(-size // _GAP) * _GAP + _GAP
    device = means[0].device
    return Layout(
        table=torch.tensor(rows, dtype=torch.int64).to(device),
        first=torch.tensor(first, dtype=torch.int32).to(device),
        sizes=torch.tensor([mean.numel() for mean in means], dtype=torch.float32).to(device),
        blocks=len(rows),
        tensors=len(means),
        total=offset,
        normals=normals,
        gaps=offset > sum(mean.numel() for mean in means),
        strided=any(channels_last(mean) for mean in means),
        aligned=all(mean.data_ptr() % _BYTES == 0 for mean in means),
    )
