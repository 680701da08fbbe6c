"""MNIST's IDX files: two zero bytes, type, number of axes, their lengths (big-endian), then the values."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import torch
from torch import Tensor

from tribayes.data.catalogue import Member
from tribayes.data.problems import bad_file, check_size
from tribayes.data.split import Split

_UINT8 = 0x08
_TYPES = {0x08: "uint8", 0x09: "int8", 0x0B: "int16", 0x0C: "int32", 0x0D: "float32", 0x0E: "float64"}


def read(data: bytearray, member: Member, source: str, classes: int) -> Tensor:
    """The values, in the member's shape. Shares the memory of `data`."""
    shape = _shape(data, source)
    if shape != member.shape:
        raise bad_file(source, f"has the wrong shape: its header says {shape}, not {member.shape}")
    check_size(source, len(data), member.size)
    values = torch.frombuffer(data, dtype=torch.uint8, offset=_header(len(shape))).view(shape)
    if len(shape) == 1 and (largest := int(values.max())) >= classes:
        raise bad_file(source, f"holds a label of {largest}, while labels go from 0 to {classes - 1}")
    return values


def split(parts: Sequence[Tensor]) -> Split:
    """Images (N, H, W) and labels, training before test."""
    train_images, train_labels, test_images, test_labels = parts
    return Split(train_images.unsqueeze(1), train_labels.long(), test_images.unsqueeze(1), test_labels.long())


def _shape(data: bytearray, source: str) -> tuple[int, ...]:
    if len(data) < _header(0):
        raise bad_file(source, f"is truncated: it ends within the header, after {len(data)} bytes")
    zero, kind, axes = struct.unpack_from(">HBB", data)
    if zero or kind not in _TYPES:
        raise bad_file(source, f"is not an IDX file: it begins with the bytes {data[:4].hex(' ')}")
    if kind != _UINT8:
        raise bad_file(source, f"has the wrong type: its header says {_TYPES[kind]}, not uint8")
    if len(data) < _header(axes):
        raise bad_file(source, f"is truncated: it ends within the header, after {len(data)} bytes")
    return struct.unpack_from(f">{axes}I", data, _header(0))


def _header(axes: int) -> int:
    return 4 + 4 * axes
