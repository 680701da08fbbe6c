"""Inputs that are rougher or smoother than those of training. Images are (N, 1, H, W), from 0 to 1."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.modern.filters import gaussian_blur

NOISE = (0.15, 0.3)  # standard deviation of a pixel
BLUR = (1.0, 2.0)  # standard deviation of the bell, in pixels
WIDE = 3.0  # of the bell that makes noise smooth

ROUGH, SMOOTH, BLURRED = "white noise", "smooth noise", "blur"
KINDS = (ROUGH, SMOOTH, BLURRED)


def shifted(images: Tensor) -> Iterator[tuple[str, float, Tensor]]:
    """(kind, strength, images): white and smooth noise have the same energy, pixel by pixel."""
    source = torch.Generator().manual_seed(0)
    white = torch.randn(images.shape, generator=source).to(images)
    smooth = gaussian_blur(white, WIDE, truncate=3, border="mirror")
    smooth = smooth / smooth.std(0, keepdim=True)
    white = white / white.std(0, keepdim=True)
    for strength in NOISE:
        yield ROUGH, strength, images + strength * white
        yield SMOOTH, strength, images + strength * smooth
    for strength in BLUR:
        yield BLURRED, strength, gaussian_blur(images, strength, truncate=3, border="edge")
