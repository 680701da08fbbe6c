"""Blurs and resamplings of a batch of images (B, C, H, W), floats, as the corruptions need them.

Sums over shifted images instead of convolutions and matrix products: these may be rounded to TF32 on a GPU, and the
corrupted images would then depend on the machine.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

_NEGLIGIBLE = 1e-6  # a weight that no 8-bit pixel notices


def beyond(size: int, radius: int, border: str) -> Tensor:
    """Which pixels stand for those from −radius to size + radius − 1.

    "edge": the last one, "mirror": mirrored at the last one, "symmetric": mirrored behind the last one.
    """
    place = torch.arange(-radius, size + radius)
    if border == "edge":
        return place.clamp(0, size - 1)
    period = 2 * size - 2 if border == "mirror" else 2 * size
    place = place.remainder(max(period, 1))
    return torch.minimum(place, period - place - int(border == "symmetric")).clamp(0, size - 1)


def padded(images: Tensor, radius: int, border: str, axes: tuple[int, ...] = (-2, -1)) -> Tensor:
    for axis in axes:
        places = beyond(images.shape[axis], radius, border)
        images = images.index_select(axis, places.to(images.device))
    return images


def gaussian_weights(sigma: float, radius: int) -> list[float]:
    """The bell at −radius … radius, with the sum 1."""
    weights = [math.exp(-(place**2) / (2 * sigma**2)) for place in range(-radius, radius + 1)]
    return [weight / sum(weights) for weight in weights]


def gaussian_blur(images: Tensor, sigma: float, truncate: float, border: str) -> Tensor:
    """Blurred by a bell that is cut off at `truncate` standard deviations."""
    radius = int(truncate * sigma + 0.5)
    if radius == 0:
        return images
    for axis in (-2, -1):
        around, size = padded(images, radius, border, (axis,)), images.shape[axis]
        taps = enumerate(gaussian_weights(sigma, radius))
        images = torch.stack([weight * around.narrow(axis, place, size) for place, weight in taps]).sum(0)
    return images


def disc_blur(images: Tensor, radius: float, softness: float) -> Tensor:
    """Blurred by a disc whose edge is softened by a bell of 3×3 pixels with the standard deviation `softness`."""
    reach = int(radius) + 1
    place = torch.arange(-reach, reach + 1)
    disc = (place.square() + place.square().unsqueeze(1) <= radius**2).double()
    bell = torch.tensor(gaussian_weights(softness, 1), dtype=torch.float64)
    kernel = F.conv2d((disc / disc.sum())[None, None], torch.outer(bell, bell)[None, None], padding=1)[0, 0]
    around, (height, width) = padded(images, reach, "mirror"), images.shape[-2:]
    total = torch.zeros_like(images)
    for row, column in (kernel > _NEGLIGIBLE).nonzero().tolist():
        total += float(kernel[row, column]) * around[..., row : row + height, column : column + width]
    return total


def motion_blur(images: Tensor, radius: int, sigma: float, degrees: Tensor) -> Tensor:
    """Drawn out into one direction each, `degrees` (B,): 2·radius + 1 steps of a pixel, fading as half a bell."""
    fading = [math.exp(-(step**2) / (2 * sigma**2)) for step in range(2 * radius + 1)]
    radians = degrees.double().cpu().deg2rad()
    total = torch.zeros_like(images)
    for step, weight in enumerate(fading):
        if weight / sum(fading) > _NEGLIGIBLE:
            down, right = ((step * part - 0.5).ceil().long() for part in (radians.sin(), radians.cos()))
            total += weight / sum(fading) * shifted(images, down, right)
    return total


def shifted(images: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Each pixel replaced by the one `down` rows and `right` columns further; (B,) or (B, H, W). Edges go on."""
    count, channels, height, width = images.shape
    rows = torch.arange(height).view(-1, 1) + down.view(count, -1, down.shape[-1] if down.ndim == 3 else 1)
    columns = torch.arange(width) + right.view(count, -1, right.shape[-1] if right.ndim == 3 else 1)
    places = rows.clamp(0, height - 1) * width + columns.clamp(0, width - 1)
    places = places.flatten(1).unsqueeze(1).to(images.device)
    return images.flatten(2).gather(2, places.expand(-1, channels, -1)).view(images.shape)


def zoomed(images: Tensor, factor: float) -> Tensor:
    """The middle, enlarged to at least the full size, linearly and from corner to corner, and cut to it."""
    size = images.shape[-1]
    part = math.ceil(size / factor)
    start = (size - part) // 2
    middle = images[..., start : start + part, start : start + part]
    larger = F.interpolate(middle, size=(round(part * factor),) * 2, mode="bilinear", align_corners=True)
    trim = (larger.shape[-1] - size) // 2
    return larger[..., trim : trim + size, trim : trim + size]


def sampled(images: Tensor, rows: Tensor, columns: Tensor, border: str) -> Tensor:
    """Linearly between the pixels, at rows and columns (B, H, W); border "mirror" or "symmetric" (see `beyond`)."""
    height, width = images.shape[-2:]
    at_centres = border == "mirror"
    if at_centres:
        grid = torch.stack([2 * columns / (width - 1) - 1, 2 * rows / (height - 1) - 1], -1)
    else:
        grid = torch.stack([(2 * columns + 1) / width - 1, (2 * rows + 1) / height - 1], -1)
    return F.grid_sample(images, grid.to(images), "bilinear", "reflection", align_corners=at_centres)


def box_resized(images: Tensor, size: int) -> Tensor:
    """Resized to size × size by averages over boxes, columns first; rounded to whole 255ths, as 8-bit images are."""
    for axis in (-1, -2):
        ratio = images.shape[axis] / size
        middles = (torch.arange(size).double() + 0.5) * ratio
        place = torch.arange(images.shape[axis]).double() + 0.5
        offset = (place - middles.unsqueeze(1)) / max(ratio, 1)
        inside = ((offset > -0.5) & (offset <= 0.5)).double()
        weights = (inside / inside.sum(1, keepdim=True)).to(images.device)
        mixed = torch.einsum("oi,...i->...o", weights, images.double().movedim(axis, -1)).movedim(-1, axis)
        images = ((mixed * 255 + 0.5).floor() / 255).to(images.dtype)
    return images
