"""Images on their way to the network: cut and mirrored at random, then in units of the training images.

Everything happens on the images' device, a batch at once, and nothing waits for it: a CUDA graph may hold it, if the
generator is one of the device's, known to the graph (`CUDAGraph.register_generator_state`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

PAD = 4  # pixels by which a cut may miss the middle, as is usual for images of 32×32


@dataclass(frozen=True)
class Normalisation:
    """Mean and standard deviation of each channel, (1, C, 1, 1), of images between 0 and 1."""

    mean: Tensor
    std: Tensor

    @classmethod
    def of(cls, images: Tensor) -> Normalisation:
        """From uint8 images (N, C, H, W); those that are trained on."""
        counts = torch.stack([channel.flatten().bincount(minlength=256) for channel in images.unbind(1)]).double()
        values = torch.linspace(0, 1, 256, dtype=torch.float64, device=images.device)
        share = counts / counts.sum(1, keepdim=True)
        mean = share @ values
        std = (share @ values.square() - mean.square()).clamp(min=1e-12).sqrt()
        return cls(mean.float().view(1, -1, 1, 1), std.float().view(1, -1, 1, 1))

    def to(self, device: torch.device | str) -> Normalisation:
        return Normalisation(self.mean.to(device), self.std.to(device))

    def __call__(self, images: Tensor, channels_last: bool = False) -> Tensor:
        """float32 (N, C, H, W) of uint8 images."""
        layout = torch.channels_last if channels_last else torch.contiguous_format
        return (images.to(torch.float32, memory_format=layout) / 255 - self.mean) / self.std


def crop_and_flip(images: Tensor, generator: torch.Generator, pad: int = PAD, flip: bool = True) -> Tensor:
    """Each image padded with black, cut to its size at a random place, and mirrored with probability ½."""
    count, _, height, width = images.shape
    device = images.device
    places = torch.randint(2 * pad + 1, (2, count, 1), generator=generator, device=device)
    rows = places[0] + torch.arange(height, device=device)
    columns = torch.arange(width, device=device).expand(count, -1)
    if flip:
        mirrored = torch.randint(2, (count, 1), generator=generator, device=device).bool()
        columns = torch.where(mirrored, columns.flip(-1), columns)
    return _taken(F.pad(images, (pad,) * 4), rows, places[1] + columns)


def _taken(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Those rows (N, H) and columns (N, W) of each image."""
    count, channels = images.shape[:2]
    device = images.device
    each = torch.arange(count, device=device).view(-1, 1, 1, 1)
    channel = torch.arange(channels, device=device).view(-1, 1, 1)
    return images[each, channel, rows[:, None, :, None], columns[:, None, None, :]]
