"""What makes an image harder to read, in steps from nothing to too much: to watch certainty go."""

from __future__ import annotations

import math
from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

_REACH = 3  # standard deviations of a blur that are summed over


class Distortion(BaseModel):
    """How much of each; all 0 leave the image as it is. Lengths are shares of the image's side.

    >>> Distortion(rotation=180).apply(torch.tensor([[[1.0, 0.0], [0.0, 0.0]]])).round()
    tensor([[[0., 0.],
             [0., 1.]]])
    """

    model_config = ConfigDict(extra="forbid")

    noise: Annotated[float, Field(ge=0, le=1, description="Standard deviation of noise on every pixel.")] = 0.0
    rotation: Annotated[float, Field(ge=-180, le=180, description="Degrees, counter-clockwise.")] = 0.0
    blur: Annotated[float, Field(ge=0, le=0.3, description="Standard deviation of a blur, share of the side.")] = 0.0
    occlusion: Annotated[float, Field(ge=0, le=1, description="Share of the side that a square hides.")] = 0.0

    def apply(self, image: Tensor) -> Tensor:
        """(C, H, W) in [0, 1] → the same, turned, blurred, hidden in part, and noisy, always by the same noise."""
        changed = image
        if self.rotation:
            changed = _turned(changed, math.radians(self.rotation))
        if self.blur:
            changed = _blurred(changed, self.blur * image.shape[-1])
        if self.occlusion:
            changed = _hidden(changed, self.occlusion)
        if self.noise:
            changed = changed + self.noise * torch.randn(image.shape, generator=torch.Generator().manual_seed(0))
        return changed.clamp(0, 1)


def _turned(image: Tensor, angle: float) -> Tensor:
    cos, sin = math.cos(angle), math.sin(angle)
    grid = F.affine_grid(torch.tensor([[[cos, -sin, 0.0], [sin, cos, 0.0]]]), [1, *image.shape], align_corners=False)
    return F.grid_sample(image.unsqueeze(0), grid, align_corners=False).squeeze(0)


def _blurred(image: Tensor, deviation: float) -> Tensor:
    reach = max(1, math.ceil(_REACH * deviation))
    weights = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / deviation) ** 2)
    weights = (weights / weights.sum()).view(1, 1, 1, -1)
    channels = image.unsqueeze(1)
    channels = F.conv2d(channels, weights, padding=(0, reach))
    return F.conv2d(channels, weights.transpose(2, 3), padding=(reach, 0)).squeeze(1)


def _hidden(image: Tensor, share: float) -> Tensor:
    """With a dark square in the middle; of part of a pixel, that part."""
    ends = ((torch.arange(side + 1) - side / 2, share * side / 2) for side in image.shape[-2:])
    rows, columns = (edges.clamp(-half, half).diff() for edges, half in ends)
    return image * (1 - torch.outer(rows, columns))
