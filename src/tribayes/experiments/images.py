"""Image files as a network takes them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tribayes._errors import refusal
from tribayes.data import Split
from tribayes.experiments.examples import load_split
from tribayes.experiments.inputs import prepare
from tribayes.experiments.options import SHAPES
from tribayes.experiments.setting import Setting

if TYPE_CHECKING:
    from PIL import Image

_PLAIN_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")  # of Pillow: at most 8 bits a channel


@dataclass(frozen=True)
class Picture:
    """An image file: its pixels (C, H, W), uint8, in the size of a data set, and what had to be done for that."""

    path: Path
    pixels: Tensor
    changes: tuple[str, ...]


def read_picture(path: Path, data: str) -> Picture:
    """An image file in the shape and colours of a data set's images."""
    channels, height, width = SHAPES[data]
    image = _open(path)
    changes = []
    if _is_transparent(image):
        image = _on_white(image)
        changes.append("transparent parts became white")
    wanted = "L" if channels == 1 else "RGB"
    if image.mode != wanted:
        changes.append("made grey" if wanted == "L" else "made RGB")
        image = image.convert(wanted)
    if image.size != (width, height):
        stretched = image.width * height != image.height * width
        changes.append(f"resized from {image.width}×{image.height} to {width}×{height}{', stretched' * stretched}")
        image = image.resize((width, height), _pillow().Resampling.LANCZOS)
    pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return Picture(path, pixels.view(height, width, channels).permute(2, 0, 1).contiguous(), tuple(changes))


def network_inputs(setting: Setting, pixels: Tensor, data_dir: Path | None, device: torch.device) -> Tensor:
    """Pixels (N, C, H, W), scaled as the training images were."""
    if setting.data == "digits":
        pixels = pixels / 255  # as those of the data set, which are floats in [0, 1]
    labels = torch.zeros(len(pixels), dtype=torch.int64)
    train, train_labels = pixels, labels
    if setting.data == "cifar-10":  # the mean of the images that were trained on is taken away
        split = load_split(setting, data_dir)
        kept = len(split.train_labels) - setting.validation
        train, train_labels = split.train_images[:kept], split.train_labels[:kept]
    _, examples = prepare(setting.data, Split(train, train_labels, pixels, labels), device)
    return examples.images


def _open(path: Path) -> Image.Image:
    pillow = _pillow()
    if not path.is_file():
        raise refusal("IMAGE", str(path), "be a file", "correct the name")
    try:
        with pillow.open(path) as file:
            file.load()
            image = file.copy()
    except (OSError, SyntaxError, ValueError, pillow.DecompressionBombError) as error:
        raise refusal("IMAGE", str(path), f"be an image that can be read ({error})", "pass e.g. a PNG") from error
    if image.mode not in _PLAIN_MODES:
        raise refusal("IMAGE", f"{path}, mode {image.mode}", "have 8 bits a channel", "convert it")
    return image


def _is_transparent(image: Image.Image) -> bool:
    if not image.has_transparency_data:
        return False
    alpha = image.convert("RGBA").getchannel("A")
    return any(byte != 255 for byte in alpha.tobytes())


def _on_white(image: Image.Image) -> Image.Image:
    coloured = image.convert("RGBA")
    white = _pillow().new("RGBA", coloured.size, "white")
    return _pillow().alpha_composite(white, coloured).convert("RGB")


def _pillow() -> ModuleType:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            "images are read with Pillow, which is not installed; install it with: pip install 'tribayes[plot]'"
        ) from error
    return Image
