"""Normals by a generator that counts, in integer operations: a seed is then an input like any other.

Philox2x32 with 7 rounds (Salmon et al. 2011), as the kernels of a GPU have it (draw/kernels.py), and the method of Box
and Muller. Words of 32 bits are held in 64, and the multiplier is split in halves, so that nothing overflows: torch,
`torch.export` and ONNX agree about every bit of the integers, where their own generators have nothing in common.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tribayes._errors import refusal, wrong_type

_ROUNDS = 7
_HIGH, _LOW = 0xD256, 0xD193  # halves of the multiplier
_WEYL = 0x9E3779B9
_WORD, _HALF = 2**32 - 1, 2**16 - 1
_UNIT = 2.0**-32


class CountedNormals:
    """A stream of independent N(0, 1), begun anew by each object of the same seed.

    Args:
        seed: one whole number in an int64 tensor; all 64 bits count.
        block: how many to make at once, at least: an exported program then has one generator and not one per tensor.

    Example:
        >>> one, other = (CountedNormals(torch.tensor(3)) for _ in range(2))
        >>> torch.equal(one.normals(torch.Size((5,)), torch.zeros(1)), other.normals(torch.Size((5,)), torch.zeros(1)))
        True
    """

    def __init__(self, seed: Tensor, block: int = 0) -> None:
        if not isinstance(seed, Tensor):
            raise wrong_type("seed", seed, "be one number in an int64 tensor", "pass e.g. torch.tensor(0)")
        if seed.dtype != torch.int64 or seed.numel() != 1:
            raise refusal("seed", seed, "be one number in an int64 tensor", "pass e.g. torch.tensor(0)")
        self._seed, self._block = seed.reshape(()), block
        self._next = 0  # the first counter that has not been used; each gives two normals
        self._made: Tensor | None = None  # and not yet given out

    def normals(self, shape: torch.Size, like: Tensor) -> Tensor:
        """The next ones, in the dtype of `like` but at least float32, each made of 32 bits."""
        count, dtype = shape.numel(), torch.promote_types(like.dtype, torch.float32)
        if self._made is None or len(self._made) < count:
            self._made = self._make(max(count, self._block), dtype, like.device)
        given, self._made = self._made[:count], self._made[count:]
        return given.to(like.device, dtype).reshape(shape)

    def _make(self, count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        pairs = (count + 1) // 2
        if self._next + pairs > _WORD:
            raise refusal("model", count, "have less than 8 billion random weights", "this generator has no more")
        counters = torch.arange(self._next, self._next + pairs, device=device)
        self._next += pairs
        left, right = (word.to(dtype) * _UNIT for word in philox(self._seed.to(device), counters))
        radius = torch.sqrt(-2 * torch.log(left + 0.5 * _UNIT))
        angle = 2 * math.pi * (right - 0.5)
        return torch.cat([radius * torch.cos(angle), radius * torch.sin(angle)])


def philox(seed: Tensor, counters: Tensor) -> tuple[Tensor, Tensor]:
    """Two words per counter, in int64. The lower half of the seed is the key, its upper half a counter too."""
    key = seed & _WORD
    left, right = counters, (seed >> 32) & _WORD
    for _ in range(_ROUNDS):
        small, large = left * _LOW, left * _HIGH
        middle = large + (small >> 16)
        high, low = middle >> 16, ((middle & _HALF) << 16) | (small & _HALF)  # of the product's 64 bits
        left, right = high ^ key ^ right, low
        key = (key + _WEYL) & _WORD
    return left, right
