"""A picture file as pixels of a given shape, read within bounds; what had to be done for that is said."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

try:
    from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError
except ImportError as error:
    raise ImportError(
        "images are read with Pillow, which is not installed; install it with: pip install 'tribayes[plot]'"
    ) from error

from tribayes._errors import refusal
from tribayes._text import printable

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")  # of Pillow's: those it reads without surprises

_PLAIN_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")  # at most 8 bits per channel
_MOST_PIXELS = 25_000_000  # half a gigabyte at most, while it is made small


class TooManyPixels(OSError):
    """A picture that would not be read for its size alone."""


class ImageFile(NamedTuple):
    """An image file: its pixels (C, H, W), uint8, in the size asked for, and what had to be done for that."""

    path: Path
    pixels: Tensor
    changes: tuple[str, ...]


def read_picture(path: Path, shape: tuple[int, int, int]) -> ImageFile:
    """An image file in a shape, (channels, height, width); one channel is grey, three are RGB."""
    if not path.is_file():
        raise refusal("IMAGE", str(path), "be a file", "correct the name")
    image, changes = open_picture(path, "IMAGE", str(path))
    return ImageFile(path, in_shape(image, shape, changes), tuple(changes))


def in_shape(image: Image.Image, shape: tuple[int, ...], changes: list[str]) -> Tensor:
    """The pixels of a picture in a shape, (channels, height, width); what was done for that is added to `changes`."""
    channels, height, width = shape
    image = in_colours(image, channels, changes)
    if image.size != (width, height):
        stretched = image.width * height != image.height * width
        changes.append(f"resized from {image.width}×{image.height} to {width}×{height}{', stretched' * stretched}")
        image = image.resize((width, height), Image.Resampling.LANCZOS)
    return pixels_of(image)


def in_colours(image: Image.Image, channels: int, changes: list[str]) -> Image.Image:
    """The picture grey or in RGB, on white where it was transparent; what was done is added to `changes`."""
    if image.has_transparency_data and (coloured := image.convert("RGBA")).getchannel("A").getextrema() != (255, 255):
        image = Image.alpha_composite(Image.new("RGBA", coloured.size, "white"), coloured).convert("RGB")
        changes.append("transparent parts became white")
    wanted = "L" if channels == 1 else "RGB"
    if image.mode != wanted:
        changes.append("made grey" if wanted == "L" else "made RGB")
        image = image.convert(wanted)
    return image


def pixels_of(image: Image.Image) -> Tensor:
    """(C, H, W), uint8."""
    pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return pixels.view(image.height, image.width, -1).permute(2, 0, 1).contiguous()


def measure_picture(path: Path) -> tuple[bool, int, int]:
    """Whether a picture has colours, its height and its width, by its header alone."""
    with _readable("IMAGE", str(path)), _noting(), Image.open(path, formats=FORMATS) as file:
        _check_size(file)
        return file.mode not in ("1", "L", "LA"), file.height, file.width


def open_picture(file: Path | BytesIO, argument: str, name: str) -> tuple[Image.Image, list[str]]:
    """The first picture of a file, turned as the camera was held, and what had to be done for that.

    `argument` and `name` are what a refusal calls it.
    """
    changes = []
    with _readable(argument, name), _noting() as remarks, Image.open(file, formats=FORMATS) as opened:
        _check_size(opened)
        opened.load()
        if getattr(opened, "is_animated", False):  # to count them may take minutes
            changes.append("the first of several pictures in the file")
        if opened.getexif().get(ExifTags.Base.Orientation, 1) in range(2, 9):
            changes.append("turned as the camera was held")
        turned = ImageOps.exif_transpose(opened)
    if turned.mode not in _PLAIN_MODES:
        raise refusal(argument, f"{name}, mode {turned.mode}", "have 8 bits per channel", "convert it")
    changes += [f"Pillow says: {printable(remark.message)}" for remark in remarks[:1]]
    return turned, changes


def _check_size(file: Image.Image) -> None:
    if file.width * file.height > _MOST_PIXELS:
        raise TooManyPixels(f"{file.width}×{file.height} are more than {_MOST_PIXELS:,} pixels")


@contextmanager
def _readable(argument: str, name: str) -> Iterator[None]:
    """Whatever a decoder stumbles over, also KeyError or TypeError, is a file that cannot be read."""
    try:
        yield
    except Exception as error:
        reason = "cannot identify image file" if isinstance(error, UnidentifiedImageError) else error  # it has a repr
        remedy = f"pass one of {', '.join(FORMATS)}"
        raise refusal(argument, name, f"be an image that can be read ({reason})", remedy) from error


@contextmanager
def _noting() -> Iterator[list[warnings.WarningMessage]]:
    """What Pillow warns of, in a list, whatever is done about warnings elsewhere."""
    with warnings.catch_warnings(record=True) as remarks:
        warnings.simplefilter("always")
        yield remarks
