"""Where images come from: the only file that knows how images.py, augment.py and corruptions.py are called.

The last training images are held out: settings and temperatures are chosen on them, and they are never trained on.
Test images are handed out when somebody asks for them, and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
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
    corrupted: Callable[[], Iterable[tuple[str, int, Tensor]]] = tuple  # kind, severity, the first test images


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
    from benchmarks.modern import augment, corruptions, images

    read = images.load(name, folder).to(device)
    kept, held = slice(None, -HELD_OUT), slice(-HELD_OUT, None)
    normalised = augment.Normalisation.of(read.train_images[kept])
    colour = name.startswith("cifar")  # others are neither cut and mirrored nor corrupted

    @cache
    def corrupted() -> list[tuple[str, int, Tensor]]:
        return list(corruptions.all_corrupted(read.test_images[:CORRUPTED])) if colour else []

    @cache  # made once for all runs of a queue
    def tests() -> Tests:
        foreign = {key: value.to(device) for key, value in images.foreign(name, folder, FOREIGN).items()}
        votes = images.votes(folder) if name == "cifar10" else None
        return Tests(read.test_images, read.test_labels, foreign, votes, corrupted)

    def augmented(batch: Tensor, generator: torch.Generator) -> Tensor:
        return normalised(augment.crop_and_flip(batch, generator) if colour else batch)

    return Study(
        name=name,
        classes=read.classes,
        images=read.train_images[kept],
        labels=read.train_labels[kept],
        held_out=read.train_images[held],
        held_out_labels=read.train_labels[held],
        prepared=normalised,
        augmented=augmented,
        tests=tests,
    )
