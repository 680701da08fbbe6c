"""The 15 corruptions of CIFAR-10-C at five severities (Hendrycks and Dietterich 2019), made anew on tensors.

    damaged = corrupt(images, "fog", severity=3, seed=0)      # uint8 (B, C, H, W) → the same

Strengths are those of CIFAR-10-C. The pictures are not its pictures: random numbers differ, and

- frost lies over images as there, but its textures are made up (`textures.frost`), for there they are six photographs;
- JPEG is our own (`jpeg`); in one of about ten blocks it rounds a coefficient otherwise than libjpeg's fast integers do
  (0.3 to 0.4 grey levels on average over all pixels);
- pixels are rounded where CIFAR-10-C cuts off, so an image here is half a grey level brighter.

Random numbers come from the CPU, whatever the device, and follow from seed, kind, severity and number of images: the
same call gives the same images, on another device but for the rounding of an occasional pixel. Severity is not always
a distance from the clean image: weak elastic distortions move the whole image, strong ones its parts, and glass that
blurs more hides its own grain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.modern import filters, textures
from benchmarks.modern.jpeg import jpeg

SEVERITIES = (1, 2, 3, 4, 5)
_GREY = (0.299, 0.587, 0.114)


class Corruption(NamedTuple):
    """How images between 0 and 1 are damaged, and how much at each severity."""

    group: str
    damage: Callable[[Tensor, Any, torch.Generator], Tensor]
    strengths: tuple[Any, ...]


def corrupt(images: Tensor, kind: str, severity: int, seed: int = 0) -> Tensor:
    """Those images, uint8 (B, C, H, W), square, after a corruption; on the same device."""
    if kind not in CORRUPTIONS or severity not in SEVERITIES:
        raise ValueError(
            f"there is no {kind!r} of severity {severity}; kinds are {', '.join(KINDS)}, severities 1 to 5"
        )
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[-1] != images.shape[-2]:
        raise ValueError(f"images must be square and uint8, (B, C, H, H), not {images.dtype} {tuple(images.shape)}")
    source = torch.Generator().manual_seed((seed * len(KINDS) + KINDS.index(kind)) * len(SEVERITIES) + severity)
    one = CORRUPTIONS[kind]
    damaged = one.damage(images.float() / 255, one.strengths[severity - 1], source)
    return (damaged.clamp(0, 1) * 255).round().to(torch.uint8)


def all_corrupted(images: Tensor, seed: int = 0) -> Iterator[tuple[str, int, Tensor]]:
    """Kind, severity and images of all 75, one after the other."""
    for kind in KINDS:
        for severity in SEVERITIES:
            yield kind, severity, corrupt(images, kind, severity, seed)


def _gaussian_noise(images: Tensor, scale: float, source: torch.Generator) -> Tensor:
    return images + scale * torch.randn(images.shape, generator=source).to(images)


def _shot_noise(images: Tensor, photons: float, source: torch.Generator) -> Tensor:
    return (torch.poisson(images.cpu() * photons, generator=source) / photons).to(images)


def _impulse_noise(images: Tensor, share: float, source: torch.Generator) -> Tensor:
    """That share of all values becomes 0 or 1."""
    struck = (torch.rand(images.shape, generator=source) < share).to(images.device)
    salt = torch.randint(2, images.shape, generator=source).to(images)
    return torch.where(struck, salt, images)


def _defocus_blur(images: Tensor, strength: tuple[float, float], _: torch.Generator) -> Tensor:
    return filters.disc_blur(images, *strength)


def _glass_blur(images: Tensor, strength: tuple[float, int], source: torch.Generator) -> Tensor:
    """Pixels but for those at the edge take the value of one of four neighbours: here, above, left, or both.

    Two pixels were meant to change places. In CIFAR-10-C one was overwritten by the other, and so it is here.
    """
    sigma, rounds = strength
    images = filters.gaussian_blur(images, sigma, truncate=4, border="edge")
    count, _, size, _ = images.shape
    for _ in range(rounds):
        back = -torch.randint(2, (2, count, size, size), generator=source)
        back[:, :, :2] = back[:, :, :, :2] = 0
        images = filters.shifted(images, *back)
    return filters.gaussian_blur(images, sigma, truncate=4, border="edge")


def _motion_blur(images: Tensor, strength: tuple[int, float], source: torch.Generator) -> Tensor:
    return filters.motion_blur(images, *strength, _angles(len(images), -45, 45, source))


def _zoom_blur(images: Tensor, steps: int, _: torch.Generator) -> Tensor:
    """The mean over enlargements by 0, 1, … % and the image itself once more."""
    return (images + sum(filters.zoomed(images, 1 + step / 100) for step in range(steps))) / (steps + 1)


class _Snow(NamedTuple):
    mean: float  # of the noise from which flakes are made
    spread: float
    size: float  # enlargement of the noise
    least: float  # noise below it is no flake
    length: int  # of the trace of a flake
    fading: float  # of the trace
    clear: float  # share of the image that is not whitened


def _snow(images: Tensor, strength: _Snow, source: torch.Generator) -> Tensor:
    """Falling flakes, and once more turned by 180°, over an image that is whitened a little."""
    count, _, size, _ = images.shape
    noise = strength.mean + strength.spread * torch.randn(count, 1, size, size, generator=source)
    flakes = filters.zoomed(noise, strength.size)
    flakes = torch.where(flakes < strength.least, 0, flakes).clamp(0, 1)
    falling = _angles(count, -135, -45, source)
    flakes = filters.motion_blur(flakes, strength.length, strength.fading, falling).to(images)
    whitened = torch.maximum(images, 1.5 * _grey(images) + 0.5)
    return strength.clear * images + (1 - strength.clear) * whitened + flakes + flakes.rot90(2, (-2, -1))


def _frost(images: Tensor, strength: tuple[float, float], source: torch.Generator) -> Tensor:
    """Made-up ice (`textures.frost`): the photographs of CIFAR-10-C are not at hand."""
    clear, ice = strength
    texture = textures.frost(len(images), images.shape[-1], source).to(images)
    return clear * images + ice * (texture if images.shape[1] == 3 else _grey(texture))


def _fog(images: Tensor, strength: tuple[float, float], source: torch.Generator) -> Tensor:
    """Clouds are added, and the sum is brought back to where the image was brightest."""
    thickness, decay = strength
    cloud = textures.clouds(len(images), images.shape[-1], decay, source).unsqueeze(1).to(images)
    brightest = images.amax((1, 2, 3), keepdim=True)
    return (images + thickness * cloud) * brightest / (brightest + thickness)


def _brightness(images: Tensor, more: float, _: torch.Generator) -> Tensor:
    """The value of the HSV model is raised; hue and saturation stay, so colours keep their ratios."""
    value = images.amax(1, keepdim=True)
    raised = (value + more).clamp(max=1)
    return torch.where(value > 0, images * raised / value.clamp(min=1e-6), raised)


def _contrast(images: Tensor, share: float, _: torch.Generator) -> Tensor:
    """Each channel is drawn towards its mean over the image."""
    mean = images.double().mean((2, 3), keepdim=True).to(images)
    return (images - mean) * share + mean


def _elastic(images: Tensor, strength: tuple[float, float, float], source: torch.Generator) -> Tensor:
    """An affine map that moves three points at random, then a smooth random displacement.

    Strengths, in units of the image's size: of the displacement, its smoothness, and how far the points move.
    """
    size = images.shape[-1]
    force, smoothness, move = (size * part for part in strength)
    rows, columns = _affine_places(len(images), size, move, source)
    images = filters.sampled(images, rows, columns, border="mirror")
    displacement = 2 * torch.rand(2, len(images), size, size, generator=source) - 1
    displacement = force * filters.gaussian_blur(displacement, smoothness, truncate=3, border="symmetric")
    place = torch.arange(size, dtype=torch.float32)
    return filters.sampled(images, place.view(-1, 1) + displacement[0], place + displacement[1], border="symmetric")


def _affine_places(count: int, size: int, move: float, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """Rows and columns (B, H, W) to read from, so that three points go where chance sends them."""
    low, high = float(size // 2 - size // 3), float(size // 2 + size // 3)
    points = torch.tensor([[high, high], [high, low], [low, low]], dtype=torch.float64)
    moved = points + move * (2 * torch.rand(count, 3, 2, generator=source, dtype=torch.float64) - 1)
    ones = torch.ones(count, 3, 1, dtype=torch.float64)
    back = torch.linalg.solve(torch.cat([moved, ones], -1), points.expand(count, -1, -1))  # (B, 3, 2)
    place = torch.arange(size, dtype=torch.float64)
    grid = torch.stack([*torch.meshgrid(place, place, indexing="xy"), torch.ones(size, size, dtype=torch.float64)], -1)
    columns, rows = (grid @ back.unsqueeze(1)).unbind(-1)
    return rows, columns


def _pixelate(images: Tensor, share: float, _: torch.Generator) -> Tensor:
    size = images.shape[-1]
    return filters.box_resized(filters.box_resized(images, int(size * share)), size)


def _jpeg(images: Tensor, quality: int, _: torch.Generator) -> Tensor:
    return jpeg((images * 255).round().to(torch.uint8), quality).to(images) / 255


def _grey(images: Tensor) -> Tensor:
    """(B, 1, H, W)."""
    if images.shape[1] != 3:
        return images
    return (images * torch.tensor(_GREY).view(1, 3, 1, 1).to(images)).sum(1, keepdim=True)


def _angles(count: int, low: float, high: float, source: torch.Generator) -> Tensor:
    """Degrees, one for each image."""
    return low + (high - low) * torch.rand(count, generator=source)


_SNOW = (
    _Snow(0.1, 0.2, 1, 0.6, 8, 3, 0.95),
    _Snow(0.1, 0.2, 1, 0.5, 10, 4, 0.9),
    _Snow(0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
    _Snow(0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
    _Snow(0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
)
_ELASTIC = ((0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03))

CORRUPTIONS = {
    "gaussian_noise": Corruption("noise", _gaussian_noise, (0.04, 0.06, 0.08, 0.09, 0.10)),
    "shot_noise": Corruption("noise", _shot_noise, (500, 250, 100, 75, 50)),
    "impulse_noise": Corruption("noise", _impulse_noise, (0.01, 0.02, 0.03, 0.05, 0.07)),
    "defocus_blur": Corruption("blur", _defocus_blur, ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))),
    "glass_blur": Corruption("blur", _glass_blur, ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2))),
    "motion_blur": Corruption("blur", _motion_blur, ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5))),
    "zoom_blur": Corruption("blur", _zoom_blur, (7, 12, 16, 21, 26)),
    "snow": Corruption("weather", _snow, _SNOW),
    "frost": Corruption("weather", _frost, ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))),
    "fog": Corruption("weather", _fog, ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75))),
    "brightness": Corruption("weather", _brightness, (0.05, 0.1, 0.15, 0.2, 0.3)),
    "contrast": Corruption("digital", _contrast, (0.75, 0.5, 0.4, 0.3, 0.15)),
    "elastic": Corruption("digital", _elastic, _ELASTIC),
    "pixelate": Corruption("digital", _pixelate, (0.95, 0.9, 0.85, 0.75, 0.65)),
    "jpeg": Corruption("digital", _jpeg, (80, 65, 58, 50, 40)),
}
KINDS = tuple(CORRUPTIONS)
