"""CIFAR's Python batches, which are pickles, read without running anything that a file may ask for.

A batch is a dict with `data`, a numpy array (N, 3072) of uint8, and `labels`, a list. To name an array a pickle calls
three functions of numpy. Those, and only those, are answered, by stand-ins that note what they are told.
"""

from __future__ import annotations

import io
import math
import pickle
from typing import Any

import torch
from torch import Tensor

from tribayes.data.problems import bad_file


def to_binary(data: bytearray, shape: tuple[int, ...], source: str) -> bytearray:
    """The same records as in the binary version, of `shape` (N, 3073): for each image its label, then its pixels."""
    try:
        batch = _Unpickler(io.BytesIO(data), encoding="bytes").load()
        if not isinstance(batch, dict) or not {b"data", b"labels"} <= batch.keys():
            raise ValueError("it is no dict with data and labels")
        pixels, labels = _pixels(batch[b"data"]), _labels(batch[b"labels"])
        if (len(labels), 1 + pixels.shape[1]) != shape or len(pixels) != len(labels):
            expected = f"{shape[0]:,} of {shape[1] - 1:,}"
            raise ValueError(f"{len(labels):,} labels for images of shape {tuple(pixels.shape)}, not {expected}")
    except Exception as error:  # a file can make unpickling fail in any way
        raise bad_file(source, f"is not a CIFAR-10 batch: {error}") from error
    binary = bytearray(math.prod(shape))
    records = torch.frombuffer(binary, dtype=torch.uint8).view(shape)
    records[:, 0] = labels
    records[:, 1:] = pixels
    return binary


def _labels(values: object) -> Tensor:
    if not isinstance(values, list) or not values:
        raise ValueError("its labels are no list")
    return torch.frombuffer(bytearray(values), dtype=torch.uint8)


def _pixels(array: object) -> Tensor:
    if not isinstance(array, _Array):
        raise ValueError("its data are no numpy array")
    if array.kind.code != b"u1":
        raise ValueError(f"its data are of type {array.kind.code!r}, not uint8")
    if len(array.shape) != 2 or len(array.values) != math.prod(array.shape) or not array.values:
        raise ValueError(f"its data are {len(array.values):,} bytes of shape {array.shape}")
    values = torch.frombuffer(bytearray(array.values), dtype=torch.uint8)
    return values.view(array.shape[::-1]).T if array.by_column else values.view(array.shape)


class _Array:
    """Stands for a numpy array; keeps what the pickle says of it."""

    def __setstate__(self, state: tuple[int, tuple[int, ...], _Kind, bool, bytes]) -> None:
        _, self.shape, self.kind, self.by_column, self.values = state


class _Kind:
    """Stands for a numpy dtype."""

    def __init__(self, code: bytes) -> None:
        self.code = code

    def __setstate__(self, state: object) -> None:
        """Byte order and alignment: a byte has none."""


class _NewArray:
    """Stands for `numpy.core.multiarray._reconstruct`. An instance without attributes: a pickle can change nothing."""

    __slots__ = ()

    def __call__(self, *_: object) -> _Array:
        return _Array()


class _NewKind:
    """Stands for `numpy.dtype`, in the same way."""

    __slots__ = ()

    def __call__(self, code: bytes, *_: object) -> _Kind:
        return _Kind(code)


_ANSWERED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _NewArray(),
    ("numpy", "dtype"): _NewKind(),
    ("numpy", "ndarray"): "ndarray",  # an argument of the first
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ANSWERED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no such file needs") from None
