"""Drawn or photographed digits, prepared as those of the training set were.

MNIST's digits were scaled, proportions kept, to fit 20×20 pixels and put into 28×28 with their centre of mass in the
middle: of the four pixels there, in the one below and to the right. scikit-learn's were scaled to fill 32×32, put in
the middle by their outline, and every 4×4 pixels counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tribayes._errors import refusal

_FAINTEST = 0.03  # of full ink: what is fainter is ground
_NOISE = 4.0  # median deviations of the border from its median: what is fainter is the paper's grain
_TIE = 0.01  # cells: what is symmetric but for grain stays where it is


@dataclass(frozen=True)
class Preparation:
    """How a data set was made: `size` pixels a side, on a grid `fine` times finer, digits filling `box` cells of it."""

    size: int
    fine: int
    box: int
    by_mass: bool  # whether the centre of mass goes to the middle, or that of the outline
    slack: float  # pixels from the middle up to which the set's own digits lie: these stay where they are
    stroke: float  # width of a pen that draws as its writers did, a share of the pad

    def __call__(self, image: Tensor) -> Tensor:
        """(1, size, size) in [0, 1] from an image (H, W) in [0, 1] of any size, light on dark or dark on light."""
        ink = light_on_dark(image)
        (top, bottom), (left, right) = _ends(ink, 0), _ends(ink, 1)
        outline = ink[top:bottom, left:right]
        scale = self.box / max(outline.shape)
        height, width = (max(1, round(scale * side)) for side in outline.shape)
        small = F.adaptive_avg_pool2d(outline[None, None], (height, width))[0, 0]
        side = self.size * self.fine
        place = torch.zeros(3 * side, 3 * side)  # with room for a digit whose mass is all at one end
        aside = self._aside(top + bottom, ink.shape[0], height), self._aside(left + right, ink.shape[1], width)
        top, left = (self._whole(1.5 * side + aside[axis] - self._middle(small, axis)) for axis in (0, 1))
        place[top : top + height, left : left + width] = small
        return F.avg_pool2d(place[None, side : 2 * side, side : 2 * side], self.fine)

    def _aside(self, ends: int, length: int, size: int) -> float:
        """How far from the middle an outline is to lie, in cells: as far as it does, if that is not far, and fits."""
        pixels = self.size * (ends / 2 / length - 0.5)
        room = max(0.0, (self.size * self.fine - size) / 2)
        return min(room, max(-room, self.fine * pixels)) if abs(pixels) <= self.slack else 0.0

    def _whole(self, place: float) -> int:
        """Centres of mass lie in MNIST's 15th pixel, between 14 and 15: so a place between two pixels is the later."""
        return math.ceil(place - _TIE) if self.by_mass else round(place)

    def _middle(self, ink: Tensor, axis: int) -> float:
        length = ink.shape[axis]
        if not self.by_mass:
            return length / 2
        profile = ink.sum(1 - axis)
        return float((profile * (torch.arange(length) + 0.5)).sum() / profile.sum())


PREPARATIONS = {
    "mnist": Preparation(size=28, fine=1, box=20, by_mass=True, slack=0.0, stroke=0.085),
    "digits": Preparation(size=8, fine=4, box=32, by_mass=False, slack=1.0, stroke=0.14),
}


def light_on_dark(image: Tensor) -> Tensor:
    """The ink of an image (H, W), in [0, 1]: 1 where most, and exactly 0 on the ground. The border shows the ground.

    >>> light_on_dark(torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]]))
    tensor([[0., 0., 0.],
            [0., 1., 0.],
            [0., 0., 0.]])
    """
    border = torch.cat([image[0], image[-1], image[:, 0], image[:, -1]])
    ground = border.median()
    grain = _NOISE * (border - ground).abs().median()
    ink = (ground - image if ground > 0.5 else image - ground).clamp(min=0)
    most = ink.max()
    if most <= max(grain, torch.tensor(_FAINTEST)):
        alike = f"{image.shape[1]}×{image.shape[0]} pixels, nearly alike"
        raise refusal("image", alike, "show something on its ground", "draw a stroke, or choose another image")
    faintest = torch.maximum(grain, _FAINTEST * most)
    ink = ink.where(ink > faintest, 0.0)
    return ink if ground == 0 else ink / most  # a drawing is taken as it is, a photograph is given full contrast


def _ends(ink: Tensor, axis: int) -> tuple[int, int]:
    """Where along an axis the ink begins, and where it has ended."""
    found = (ink > 0).any(1 - axis).nonzero()
    return int(found[0]), int(found[-1]) + 1
