"""What JPEG makes of images: packed and unpacked again as libjpeg does by default, but for the lossless coding.

Colours at half the resolution, blocks of 8×8, the standard's example tables of quantisation (ITU T.81, Annex K) scaled
to a quality, and a triangle filter to enlarge colours again. In float64, so that every machine gives the same pixels.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

_LIGHT = """
16 11 10 16  24  40  51  61
12 12 14 19  26  58  60  55
14 13 16 24  40  57  69  56
14 17 22 29  51  87  80  62
18 22 37 56  68 109 103  77
24 35 55 64  81 104 113  92
49 64 78 87 103 121 120 101
72 92 95 98 112 100 103  99
"""
_COLOUR = """
17 18 24 47 99 99 99 99
18 21 26 66 99 99 99 99
24 26 56 99 99 99 99 99
47 66 99 99 99 99 99 99
99 99 99 99 99 99 99 99
99 99 99 99 99 99 99 99
99 99 99 99 99 99 99 99
99 99 99 99 99 99 99 99
"""
_TO_LIGHT_AND_COLOUR = (
    (0.299, 0.587, 0.114),
    (-0.168735892, -0.331264108, 0.5),
    (0.5, -0.418687589, -0.081312411),
)


def jpeg(images: Tensor, quality: int) -> Tensor:
    """uint8 (B, 3 or 1, H, W) → the same, through JPEG at that quality, from 1 to 100."""
    height, width = images.shape[-2:]
    light_table, colour_table = (_table(text, quality).to(images.device) for text in (_LIGHT, _COLOUR))
    pixels = images.double()
    if images.shape[1] == 1:
        return _through(_enlarged_to(pixels, 8), light_table)[..., :height, :width].to(torch.uint8)
    change = torch.tensor(_TO_LIGHT_AND_COLOUR, dtype=torch.float64, device=images.device)
    shift = torch.tensor([0.0, 128, 128], dtype=torch.float64, device=images.device).view(-1, 1, 1)
    planes = _rounded(torch.einsum("oc,bchw->bohw", change, _enlarged_to(pixels, 16)) + shift)
    light = _through(planes[:, :1], light_table)
    colour = _doubled(_through(_halved(planes[:, 1:]), colour_table)) - 128
    blue, red = colour[:, :1], colour[:, 1:]
    green = light - 0.344136286 * blue - 0.714136286 * red
    restored = torch.cat([light + 1.402 * red, green, light + 1.772 * blue], 1)
    return _rounded(restored)[..., :height, :width].to(torch.uint8)


def _table(text: str, quality: int) -> Tensor:
    """Steps of quantisation, (8, 8)."""
    percent = 5000 // quality if quality < 50 else 200 - 2 * quality
    base = torch.tensor([int(word) for word in text.split()]).view(8, 8)
    return ((base * percent + 50) // 100).clamp(1, 255).double()


def _through(planes: Tensor, table: Tensor) -> Tensor:
    """Cosine transform of each 8×8 block, rounded to steps of the table, and back; whole numbers from 0 to 255."""
    height, width = planes.shape[-2:]
    cosines = _cosines().to(planes.device)
    blocks = planes.unflatten(-1, (width // 8, 8)).unflatten(-3, (height // 8, 8)).transpose(-3, -2) - 128
    levels = (cosines @ blocks @ cosines.T) / table
    kept = levels.sign() * (levels.abs() + 0.5).floor() * table
    restored = (cosines.T @ kept @ cosines).transpose(-3, -2).reshape(planes.shape)
    return _rounded(restored + 128)


def _cosines() -> Tensor:
    """The orthonormal cosine transform of 8 numbers."""
    frequency = torch.arange(8, dtype=torch.float64).unsqueeze(1)
    place = torch.arange(8, dtype=torch.float64)
    rows = 0.5 * torch.cos(math.pi / 8 * frequency * (place + 0.5))
    rows[0] /= math.sqrt(2)
    return rows


def _halved(planes: Tensor) -> Tensor:
    """Means of 2×2 pixels; halves are rounded down and up in turns, so that they cancel."""
    sums = F.avg_pool2d(planes, 2) * 4
    turn = 1 + torch.arange(sums.shape[-1], device=planes.device) % 2
    return ((sums + turn) / 4).floor()


def _doubled(planes: Tensor) -> Tensor:
    """Enlarged by a triangle filter: ¾ of the nearest pixel and ¼ of the next, in both directions."""
    rows = _threes_and_ones(planes.transpose(-1, -2)).transpose(-1, -2)
    sums = _threes_and_ones(rows)
    turn = 8 - torch.arange(sums.shape[-1], device=planes.device) % 2
    return ((sums + turn) / 16).floor()


def _threes_and_ones(planes: Tensor) -> Tensor:
    """Along the last axis, twice as many: 3 × this + the one before, 3 × this + the one after."""
    before = torch.cat([planes[..., :1], planes[..., :-1]], -1)
    after = torch.cat([planes[..., 1:], planes[..., -1:]], -1)
    return torch.stack([3 * planes + before, 3 * planes + after], -1).flatten(-2)


def _enlarged_to(pixels: Tensor, multiple: int) -> Tensor:
    """With the last row and column repeated until whole blocks are full."""
    height, width = pixels.shape[-2:]
    return F.pad(pixels, (0, -width % multiple, 0, -height % multiple), mode="replicate")


def _rounded(values: Tensor) -> Tensor:
    return (values + 0.5).floor().clamp(0, 255)
