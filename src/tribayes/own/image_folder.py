"""A folder of images, one sub-folder per class, as tensors of one size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from tribayes._errors import refusal
from tribayes._text import printable
from tribayes.own.target import FEWEST_PER_CLASS, MOST_CLASSES
from tribayes.runs.records import is_of

ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
MOST_BYTES = 1_000_000_000  # of all pixels together
SIDES = (8, 64)  # between which the side of images is chosen; a setting may say otherwise

_DAMAGED = "schema.json was changed or is damaged; restore it, or start anew in another folder"


@dataclass(frozen=True)
class Pixels:
    """The shape of images, (channels, height, width), and what is taken off them and divided by."""

    shape: tuple[int, int, int]
    mean: tuple[float, ...]  # of each channel, in [0, 1]
    std: tuple[float, ...]

    @classmethod
    def learned(cls, images: Tensor) -> Pixels:
        """By training images, (N, C, H, W), uint8."""
        counts = [torch.bincount(channel.flatten(), minlength=256).double() for channel in images.unbind(1)]
        levels = torch.arange(256, dtype=torch.float64) / 255
        means = [float(count @ levels / count.sum()) for count in counts]
        squares = [count @ (levels - mean).square() for count, mean in zip(counts, means, strict=True)]
        spreads = [  # of one level exactly 0, whatever its mean is rounded to
            float((square / count.sum()).sqrt()) if len(count.nonzero()) > 1 else 0.0
            for square, count in zip(squares, counts, strict=True)
        ]
        if not any(spreads):
            raise refusal("DATA", "images of one colour", "show something", "all pixels of all images are the same")
        _, channels, height, width = images.shape
        return cls((channels, height, width), tuple(means), tuple(spread or 1.0 for spread in spreads))

    @property
    def words(self) -> str:
        """What images become."""
        channels, height, width = self.shape
        return f"images become {width}×{height}, {'grey' if channels == 1 else 'in colour'}; --set size=N chooses"

    def scaled(self, images: Tensor) -> Tensor:
        """uint8 images as the network takes them: float32, of mean 0 and standard deviation 1 in training."""
        mean, std = (torch.tensor(values).view(-1, 1, 1).to(images.device) for values in (self.mean, self.std))
        return (images.float() / 255 - mean) / std

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {key: list(value) for key, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, stored: Any) -> Pixels:
        """Those that were stored; every value is checked."""
        if not isinstance(stored, dict) or stored.keys() != {"shape", "mean", "std"}:
            raise refusal("pixels", stored, "have shape, mean and std", _DAMAGED)
        shape, mean, std = (stored[key] for key in ("shape", "mean", "std"))
        sizes = (
            isinstance(shape, list) and len(shape) == 3 and all(is_of(int, side) and 0 < side <= 4096 for side in shape)
        )
        if not sizes or shape[0] not in (1, 3):
            raise refusal("pixels.shape", shape, "be channels (1 or 3), height and width", _DAMAGED)
        for values in (mean, std):
            if (
                not isinstance(values, list)
                or len(values) != shape[0]
                or not all(is_of(float, each) for each in values)
            ):
                raise refusal("pixels", values, "have a finite number for each channel", _DAMAGED)
        if min(std) <= 0:
            raise refusal("pixels.std", std, "be positive", _DAMAGED)
        return cls((shape[0], shape[1], shape[2]), tuple(mean), tuple(std))


@dataclass(frozen=True)
class FoundImages:
    """The image files of a folder, class by class, in the order of their names; and what was left out."""

    classes: tuple[str, ...]
    files: tuple[Path, ...]
    labels: Tensor
    notes: tuple[str, ...]

    @classmethod
    def in_folder(cls, folder: Path) -> FoundImages:
        """Look for them; an error where there are not two classes with images."""
        found: dict[str, list[Path]] = {}
        others, empty, deeper = 0, [], []
        for place in folders_in(folder):
            images, rest = images_in(place)
            others += rest
            name = printable(place.name)
            if name in found:
                requirement = f"have classes whose names can be told apart, but two are {name!r}"
                raise refusal("DATA", str(folder), requirement, "rename one of the folders")
            if images:
                found[name] = images
            else:
                empty.append(name)
            deeper += [f"{name}/{printable(inner.name)}" for inner in folders_in(place) if any(images_in(inner)[0])]
        if len(found) < 2:
            requirement = f"have a sub-folder of images for each class, two or more, but it has {len(found)}"
            raise refusal("DATA", str(folder), requirement, _remedy(folder, others))
        rare = min(found, key=lambda name: len(found[name]))
        if len(found[rare]) < FEWEST_PER_CLASS:
            requirement = f"have {FEWEST_PER_CLASS} images or more of each class, but {rare!r} has {len(found[rare])}"
            raise refusal("DATA", str(folder), requirement, "gather more, or take that folder away")
        if len(found) > MOST_CLASSES:
            requirement = f"have at most {MOST_CLASSES:,} classes, but it has {len(found):,}"
            raise refusal("DATA", str(folder), requirement, "merge some")
        labels = [number for number, images in enumerate(found.values()) for _ in images]
        loose = len(images_in(folder)[0])
        notes = [f"left out: {_counted(others, 'file')} with other endings than those of images"] if others else []
        notes += [f"left out: {_counted(loose, 'image')} in no class's folder"] if loose else []
        notes += [f"folder {name!r} has no images, and is no class" for name in empty]
        notes += [f"the images in {name!r} are left out: a class has its images in its own folder" for name in deeper]
        files = tuple(path for images in found.values() for path in images)
        return cls(tuple(found), files, torch.tensor(labels), tuple(notes))


def _remedy(folder: Path, others: int) -> str:
    """What to do about a folder without classes: the classes may lie one deeper, as in train/cat, train/dog."""
    for place in folders_in(folder):
        if sum(bool(images_in(inner)[0]) for inner in folders_in(place)) > 1:
            return f"pass {str(place)!r}, which has them"
    found = f"; in its sub-folders {_counted(others, 'file')} with other endings" if others else ""
    return f"sort images ({', '.join(ENDINGS)}) into them{found}"


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'s' * (number != 1)}"


def folders_in(folder: Path) -> list[Path]:
    """The folders in a folder, sorted, but for hidden ones."""
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def images_in(folder: Path) -> tuple[list[Path], int]:
    """The images of a folder by their ending, sorted; and how many other files it has."""
    names = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    images = [path for path in names if path.suffix.lower() in ENDINGS]
    return images, len(names) - len(images)


def shape_of(files: Sequence[Path], size: int | None) -> tuple[int, int, int]:
    """Grey where all are; as large as they are where all are of one size of up to 64×64, else square."""
    from tribayes.data.pictures import measure_picture  # needs Pillow

    measured = [measure_picture(path) for path in files]
    channels = 3 if any(coloured for coloured, _, _ in measured) else 1
    if size is not None:
        return channels, size, size
    (height, width), count = Counter((height, width) for _, height, width in measured).most_common(1)[0]
    smallest, largest = SIDES
    if count == len(files) and smallest <= min(height, width) and max(height, width) <= largest:
        return channels, height, width
    side = round(median(min(height, width) for _, height, width in measured))
    side = max(smallest, min(side, largest))
    return channels, side, side


def read_images(files: Sequence[Path], shape: tuple[int, int, int]) -> Tensor:
    """(N, C, H, W), uint8; an error that names the file where one cannot be read."""
    from tribayes.data.pictures import read_picture  # needs Pillow

    size = len(files) * shape[0] * shape[1] * shape[2]
    if size > MOST_BYTES:
        requirement = f"come to at most {MOST_BYTES / 1e9:g} GB of pixels, but they come to {size / 1e9:.1f}"
        raise refusal(
            "DATA", f"{len(files):,} images of {shape[2]}×{shape[1]}", requirement, "pass --set size=32, or fewer"
        )
    images = torch.empty(len(files), *shape, dtype=torch.uint8)
    for number, path in enumerate(files):
        images[number] = read_picture(path, shape).pixels
    return images
