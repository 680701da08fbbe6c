"""A few images and sampled outputs inside a JSON file: their bytes, deflated, as base64."""

from __future__ import annotations

import base64
import sys
import zlib
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

OUTPUT_UNIT = 10_000  # outputs of the example images are stored in so many parts, as whole numbers: half the bytes


def pack_image(image: Tensor) -> dict[str, Any]:
    """An image (C, H, W), uint8 or floats in [0, 1], as {"shape", "bytes"}."""
    values = image.detach().cpu()
    values = (values * 255).round() if values.is_floating_point() else values
    return _packed(values.shape, array("B", values.to(torch.uint8).flatten().tolist()))


def unpack_image(packed: Mapping[str, Any]) -> Tensor:
    """The image again, floats in [0, 1]."""
    return _unpacked(packed, "B").float() / 255


def pack_outputs(outputs: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Rows of whole numbers from 0 to 65,535, two bytes each."""
    flat = [value for row in outputs for value in row]
    return _packed((len(outputs), len(outputs[0])), array("H", flat))


def unpack_outputs(packed: Mapping[str, Any]) -> Tensor:
    """The rows again, int64."""
    return _unpacked(packed, "H")


def _packed(shape: Sequence[int], values: array[int]) -> dict[str, Any]:
    return {"shape": list(shape), "bytes": base64.b64encode(zlib.compress(_little(values).tobytes(), 9)).decode()}


def _unpacked(packed: Mapping[str, Any], kind: str) -> Tensor:
    values: array[int] = array(kind)
    values.frombytes(zlib.decompress(base64.b64decode(packed["bytes"])))
    return torch.tensor(_little(values).tolist()).reshape(packed["shape"])


def _little(values: array[int]) -> array[int]:
    """Numbers of several bytes begin with the lowest, on every machine."""
    swapped = values[:]
    if sys.byteorder == "big":
        swapped.byteswap()
    return swapped
