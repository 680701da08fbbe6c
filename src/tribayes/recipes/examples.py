"""The images of a setting: loaded, checked, and scaled as the networks of the paper take them."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from tribayes._errors import refusal
from tribayes.data import Split, load
from tribayes.recipes.setting import Setting
from tribayes.runs.batches import Examples


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


def prepare(name: str, split: Split, device: torch.device, validation: int = 0) -> tuple[Examples, Examples]:
    """Training and test examples on `device`, scaled as Caffe scales them.

    MNIST and Fashion-MNIST are scaled by 1/256; CIFAR-10 keeps its raw scale, less the mean training image; the
    digits are in [0, 1] already. With `validation`, the last so many training images are held out and stand in for
    the test images.
    """
    train, test = split.train_images.to(device).float(), split.test_images.to(device).float()
    train_labels, test_labels = split.train_labels.to(device), split.test_labels.to(device)
    if validation:
        test, test_labels = train[-validation:], train_labels[-validation:]
        train, train_labels = train[:-validation], train_labels[:-validation]
    if name == "cifar-10":
        centre = train.mean(0)
        train, test = train - centre, test - centre
    elif name != "digits":
        train, test = train / 256, test / 256
    train, test = (images.to(memory_format=memory_format(images)) for images in (train, test))
    return Examples(train, train_labels), Examples(test, test_labels)


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


def shown_images(setting: Setting, split: Split) -> Tensor:
    """The test images as a person sees them, in [0, 1]."""
    held_out = split.train_images[-setting.validation :] if setting.validation else split.test_images
    return held_out / 255 if held_out.dtype == torch.uint8 else held_out


def memory_format(images: Tensor) -> torch.memory_format:
    """On a GPU, images of several channels and the filters for them lie channels last.

    There cuDNN's kernels for CIFAR10_full leave room for other trainings beside them: six take half the time. For
    LeNet, with its single input channel, it is the other way round.
    """
    return torch.channels_last if images.is_cuda and images.shape[1] > 1 else torch.contiguous_format
