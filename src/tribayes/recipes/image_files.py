"""A finished run asked about image files: read as its network takes them, answered in words and by a boxplot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

try:
    from PIL import Image, ImageOps
except ImportError as error:
    raise ImportError(
        "images are read with Pillow, which is not installed; install it with: pip install 'tribayes[plot]'"
    ) from error

from tribayes._errors import refusal
from tribayes._files import make_folder, store
from tribayes._text import level_text
from tribayes.data import Split, class_names
from tribayes.plots import output_boxplot
from tribayes.plots.style import drawn
from tribayes.prediction import ClassPredictive
from tribayes.recipes.examples import load_split, prepare
from tribayes.recipes.recipe_run import RecipeRun
from tribayes.recipes.setting import SHAPES, Setting
from tribayes.runs.batches import Examples
from tribayes.runs.evaluation import sampled_answers

_LEVEL = 0.95
_FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")  # of Pillow's: those it reads without surprises
_PLAIN_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")  # at most 8 bits per channel
_MOST_PIXELS = 50_000_000
_NAME_LENGTH = 100  # of a boxplot's file, before its ending


class ImageFile(NamedTuple):
    """An image file: its pixels (C, H, W), uint8, in the size of a data set, and what had to be done for that."""

    path: Path
    pixels: Tensor
    changes: tuple[str, ...]


def ask_about(
    run: RecipeRun, files: Sequence[Path], folder: Path, data_dir: Path | None, device: torch.device, samples: int
) -> Iterator[str]:
    """What the network says about image files, a few lines each; a boxplot of each is drawn in `folder`."""
    setting, model = run.setting, run.bayesian_network(device)
    images = [read_image(path, setting.data) for path in files]
    inputs = network_inputs(setting, torch.stack([image.pixels for image in images]), data_dir, device)
    pred = sampled_answers(model, inputs, run.seed, samples, keep_samples=True)
    names = class_names(setting.data)
    make_folder(folder)
    for number, (image, plot) in enumerate(zip(images, _boxplot_names(files), strict=True)):
        options = {"image": image.pixels / 255, "class_names": names, "level": _LEVEL}
        picture = BytesIO()
        drawn(output_boxplot, 5.0, 3.3, pred, number, **options).savefig(picture, format="png", dpi=150)
        store(folder / plot, picture.getvalue())
        verdict = f"{_shown(image.path)}: {_verdict(pred, number, names)}"
        yield "\n  ".join([verdict, *image.changes, f"boxplot: {_shown(folder / plot)}"])


def read_image(path: Path, data: str) -> ImageFile:
    """An image file in the shape and colours of a data set's images."""
    channels, height, width = SHAPES[data]
    image, changes = _open(path)
    if image.has_transparency_data and min((coloured := image.convert("RGBA")).getchannel("A").tobytes()) < 255:
        image = Image.alpha_composite(Image.new("RGBA", coloured.size, "white"), coloured).convert("RGB")
        changes.append("transparent parts became white")
    wanted = "L" if channels == 1 else "RGB"
    if image.mode != wanted:
        changes.append("made grey" if wanted == "L" else "made RGB")
        image = image.convert(wanted)
    if image.size != (width, height):
        stretched = image.width * height != image.height * width
        changes.append(f"resized from {image.width}×{image.height} to {width}×{height}{', stretched' * stretched}")
        image = image.resize((width, height), Image.Resampling.LANCZOS)
    pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return ImageFile(path, pixels.view(height, width, channels).permute(2, 0, 1).contiguous(), tuple(changes))


def _open(path: Path) -> tuple[Image.Image, list[str]]:
    """The first picture of a file, turned as the camera was held, and what had to be done for that."""
    if not path.is_file():
        raise refusal("IMAGE", str(path), "be a file", "correct the name")
    changes = []
    try:
        with Image.open(path, formats=_FORMATS) as file:
            if file.width * file.height > _MOST_PIXELS:
                raise OSError(f"{file.width}×{file.height} are more than {_MOST_PIXELS:,} pixels")
            file.load()
            if (pictures := getattr(file, "n_frames", 1)) > 1:
                changes.append(f"the first of {pictures} pictures in the file")
            image = file.copy()
            turned = ImageOps.exif_transpose(image)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        remedy = f"pass one of {', '.join(_FORMATS)}"
        raise refusal("IMAGE", str(path), f"be an image that can be read ({error})", remedy) from error
    if image.mode not in _PLAIN_MODES:
        raise refusal("IMAGE", f"{path}, mode {image.mode}", "have 8 bits per channel", "convert it")
    if turned.tobytes() != image.tobytes() or turned.size != image.size:
        changes.append("turned as the camera was held")
    return turned, changes


def network_inputs(setting: Setting, pixels: Tensor, data_dir: Path | None, device: torch.device) -> Examples:
    """Pixels (N, C, H, W), scaled as the training images were; their targets mean nothing."""
    if setting.data == "digits":
        pixels = pixels / 255  # as those of the data set, which are floats in [0, 1]
    train = pixels
    if setting.data == "cifar-10":  # the mean of the images that were trained on is taken away
        images = load_split(setting, data_dir).train_images
        train = images[: len(images) - setting.validation]
    labels = [torch.zeros(len(images), dtype=torch.int64) for images in (train, pixels)]
    return prepare(setting.data, Split(train, labels[0], pixels, labels[1]), device)[1]


def _verdict(pred: ClassPredictive, number: int, names: Sequence[str]) -> str:
    label = int(pred.label[number])
    lower, upper = (float(bound[number, label]) for bound in pred.interval(_LEVEL))
    sure = "quite certain" if bool(pred.certain(_LEVEL)[number]) else "uncertain"
    probability = f"probability {float(pred.mean[number, label]):.3f}"
    return f"{names[label]}, {probability}, {level_text(_LEVEL)} interval {lower:.3f} to {upper:.3f}, {sure}"


def _boxplot_names(files: Sequence[Path]) -> list[str]:
    """A name for each picture that no other has; those that would be equal are numbered."""
    names: list[str] = []
    for stem in (path.stem[:_NAME_LENGTH] for path in files):
        numbered = (f"{stem}{f'-{times}' * (times > 1)}.boxplot.png" for times in count(1))
        names.append(next(name for name in numbered if name not in names))
    return names


def _shown(path: Path) -> str:
    """A name as a terminal can show it: what would command it is written out."""
    return str(path) if str(path).isprintable() else ascii(str(path))
