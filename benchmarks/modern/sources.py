"""Where images come from: the only file that knows how images.py, augment.py and corruptions.py are called.

The last training images are held out: settings and temperatures are chosen on them, and they are never trained on.
Test images are read when somebody asks for them, and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.modern.networks import Image

HELD_OUT = 5_000
CORRUPTED = 2_000  # test images that are corrupted
FOREIGN = 10_000


@dataclass(frozen=True)
class Tests:
    """What a finished network is tested on, all images of uint8."""

    images: Tensor
    labels: Tensor
    foreign: dict[str, Tensor] = field(default_factory=dict)
    votes: Tensor | None = None  # (N, C): shares of people who saw that class
    corrupted: Callable[[], Iterator[tuple[str, int, Tensor]]] = lambda: iter(())  # kind, severity, first test images


@dataclass(frozen=True)
class Study:
    """A data set on a device: uint8 images to train on, and those held out."""

    name: str
    classes: int
    images: Tensor
    labels: Tensor
    held_out: Tensor
    held_out_labels: Tensor
    prepared: Callable[[Tensor], Tensor]  # what a network sees, in float
    augmented: Callable[[Tensor, torch.Generator], Tensor]  # what it sees in training
    tests: Callable[[], Tests]

    @property
    def image(self) -> Image:
        channels, height, width = self.images.shape[1:]
        return channels, height, width

    @property
    def device(self) -> torch.device:
        return self.images.device


def load(name: str, folder: Path, device: torch.device) -> Study:
    """A data set by name, from a folder laid out as $TRIBAYES_DATA."""
    from benchmarks.modern import augment, images

    read = images.load(name, folder)
    train, labels = read.train_images.to(device), read.train_labels.to(device).long()
    prepared = augment.normalised
    augmented = augment.cropped if name.startswith("cifar") else (lambda batch, _: prepared(batch))

    def tests() -> Tests:
        return Tests(
            read.test_images.to(device),
            read.test_labels.to(device).long(),
            {key: value.to(device) for key, value in images.foreign(name, folder, FOREIGN).items()},
            images.votes(folder) if name == "cifar10" else None,
            lambda: _corrupted(name, read.test_images[:CORRUPTED].to(device)),
        )

    kept, held = slice(None, -HELD_OUT), slice(-HELD_OUT, None)
    return Study(name, read.classes, train[kept], labels[kept], train[held], labels[held], prepared, augmented, tests)


def _corrupted(name: str, images: Tensor) -> Iterator[tuple[str, int, Tensor]]:
    from benchmarks.modern import corruptions

    if not name.startswith("cifar"):
        return
    for kind in corruptions.KINDS:
        for severity in range(1, 6):
            yield kind, severity, corruptions.corrupted(images, kind, severity)
