"""The images of a setting, loaded and checked."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from tribayes._errors import refusal
from tribayes.data import Split, load
from tribayes.experiments.inputs import prepare
from tribayes.experiments.setting import Setting
from tribayes.experiments.trainer import Examples


def load_split(setting: Setting, data_dir: Path | None) -> Split:
    """The data set of a setting; an error where it has fewer images than are to be held out."""
    split = load(setting.data, data_dir)
    if setting.validation >= len(split.train_labels):
        requirement = f"leave some of the {len(split.train_labels):,} training images"
        raise refusal("--validation", setting.validation, requirement, "hold out fewer")
    return split


def load_examples(setting: Setting, data_dir: Path | None, device: torch.device) -> tuple[Examples, Examples]:
    """Training and test examples as the network takes them."""
    return prepare(setting.data, load_split(setting, data_dir), device, setting.validation)


def shown_images(setting: Setting, split: Split) -> Tensor:
    """The test images as a person sees them, in [0, 1]."""
    held_out = split.train_images[-setting.validation :] if setting.validation else split.test_images
    return held_out / 255 if held_out.dtype == torch.uint8 else held_out
