"""What was sent, as the image that a network is shown."""

from __future__ import annotations

from io import BytesIO
from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from tribayes.data.pictures import TooManyPixels, in_colours, in_shape, open_picture, pixels_of
from tribayes.serve.asking import Options
from tribayes.serve.ink import Preparation
from tribayes.serve.refused import Refused
from tribayes.serve.subject import Subject

MOST_SIDE = 1024  # of pixels that are sent as numbers

_ENOUGH = 560  # pixels a side: larger pictures of digits are made smaller first, which no network would notice

Value = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Line = Annotated[list[Value], Field(max_length=MOST_SIDE, fail_fast=True)]  # else all of a million wrong ones are noted
Rows = Annotated[list[Line], Field(min_length=1, max_length=MOST_SIDE, fail_fast=True)]


class Pixels(BaseModel):
    """An image as numbers from 0, dark, to 1, light: rows of pixels, or one such table for each colour."""

    model_config = ConfigDict(extra="forbid")

    pixels: Rows | Annotated[list[Rows], Field(min_length=1, max_length=3, fail_fast=True)]


def image_of_file(content: bytes, subject: Subject, options: Options) -> tuple[Tensor, list[str]]:
    """(C, H, W) in [0, 1] from the bytes of an image file, and what was done to it, in words."""
    if not content:
        raise Refused(422, "the body is empty; send an image file, or JSON with pixels.")
    try:
        picture, changes = open_picture(BytesIO(content), "image", f"{len(content):,} bytes")
    except ValueError as error:
        raise Refused(413 if isinstance(error.__cause__, TooManyPixels) else 415, str(error)) from error
    if subject.preparation is None or not options.prepare:
        return options.apply(in_shape(picture, subject.shape, changes) / 255), changes  # as `tribayes predict` does
    picture = in_colours(picture, subject.shape[0], changes)
    picture.thumbnail((_ENOUGH, _ENOUGH))
    return options.apply(_drawn(pixels_of(picture) / 255, subject.preparation)), changes


def image_of_numbers(body: Pixels, subject: Subject, options: Options) -> tuple[Tensor, list[str]]:
    """The same from numbers."""
    try:
        image = torch.tensor(body.pixels)
    except ValueError as error:
        raise Refused(422, "`pixels` must have rows of one length; send a table of numbers.") from error
    image = image.unsqueeze(0) if image.ndim == 2 else image
    if image.shape[0] != subject.shape[0] or not 0 < image.shape[2] <= MOST_SIDE:
        wanted = f"have {subject.shape[0]} of rows and at most {MOST_SIDE} pixels a side"
        raise Refused(422, f"`pixels` (={tuple(image.shape)}) must {wanted}; send colours × rows × columns.")
    changes: list[str] = []
    if subject.preparation is not None and options.prepare:
        image = _drawn(image, subject.preparation)
    elif image.shape != subject.shape:
        height, width = subject.shape[1:]
        changes.append(f"resized from {image.shape[2]}×{image.shape[1]} to {width}×{height}")
        image = F.interpolate(image.unsqueeze(0), (height, width), mode="area").squeeze(0)
    return options.apply(image), changes


def _drawn(image: Tensor, preparation: Preparation) -> Tensor:
    """A drawn digit as those of the training set."""
    try:
        return preparation(image[0])
    except ValueError as error:
        raise Refused(422, str(error)) from error
