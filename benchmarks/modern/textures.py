"""Clouds and frost: made-up grey pictures (B, H, W) between 0 and 1 that weather lays over images."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from benchmarks.modern.filters import motion_blur

_NEEDLES = 0.03  # share of pixels at which a needle of ice begins
_TINT = (0.85, 0.95, 1.0)  # ice is bluish


def clouds(count: int, size: int, decay: float, generator: torch.Generator) -> Tensor:
    """Diamond-square fractals (Fournier, Fussell and Carpenter 1982) on a torus, each from 0 to 1.

    The amplitude of the noise falls by decay² from one scale to the next: the larger, the smoother.
    """
    full = 2 ** math.ceil(math.log2(size))
    field = torch.zeros(count, full, full)
    step, amplitude = full, 1.0

    def mean_and_noise(total: Tensor) -> Tensor:
        return total / 4 + amplitude * (2 * torch.rand(total.shape, generator=generator) - 1)

    while step >= 2:
        half = step // 2
        corners = field[:, ::step, ::step]
        pairs = corners + corners.roll(-1, 1)
        middles = mean_and_noise(pairs + pairs.roll(-1, 2))
        field[:, half::step, half::step] = middles
        field[:, ::step, half::step] = mean_and_noise(middles + middles.roll(1, 1) + corners + corners.roll(-1, 2))
        field[:, half::step, ::step] = mean_and_noise(middles + middles.roll(1, 2) + corners + corners.roll(-1, 1))
        step, amplitude = half, amplitude / decay**2
    return _stretched(field)[:, :size, :size]


def frost(count: int, size: int, generator: torch.Generator) -> Tensor:
    """Ice on a window in colour, (B, 3, H, W): needles in three directions 60° apart, in thick and thin ice."""
    turn = 60 * torch.rand(count, generator=generator)
    needles = torch.zeros(count, 1, size, size)
    for direction in (0, 60, 120):
        seeds = (torch.rand(count, 1, size, size, generator=generator) < _NEEDLES).float()
        for side in (0, 180):
            needles += motion_blur(seeds, radius=8, sigma=6, degrees=turn + direction + side)
    thickness = clouds(count, size, decay=1.8, generator=generator)
    grey = 0.2 + 0.4 * thickness + (0.3 + thickness) * _stretched(needles.squeeze(1))
    return grey.clamp(0, 1).unsqueeze(1) * torch.tensor(_TINT).view(1, 3, 1, 1)


def _stretched(fields: Tensor) -> Tensor:
    """From 0 to 1 each."""
    low, high = fields.amin((1, 2), keepdim=True), fields.amax((1, 2), keepdim=True)
    return (fields - low) / (high - low).clamp(min=1e-12)
