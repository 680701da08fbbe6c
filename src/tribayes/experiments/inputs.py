"""Data sets as the networks of the paper take them: on the device, scaled as Caffe scales them."""

from __future__ import annotations

import torch
from torch import Tensor

from tribayes.data import Split
from tribayes.experiments.trainer import Examples, memory_format


def prepare(name: str, split: Split, device: torch.device, validation: int = 0) -> tuple[Examples, Examples]:
    """Training and test examples on `device`.

    MNIST and Fashion-MNIST are scaled by 1/256; CIFAR-10 keeps its raw scale, less the mean training image; the
    digits are in [0, 1] already. With `validation`, the last so many training images are held out and stand in for
    the test images.
    """
    train, test = split.train_images.to(device).float(), split.test_images.to(device).float()
    train_labels, test_labels = split.train_labels.to(device), split.test_labels.to(device)
    if validation:
        test, test_labels = train[-validation:], train_labels[-validation:]
        train, train_labels = train[:-validation], train_labels[:-validation]
    train, test = (images.to(memory_format=memory_format(images)) for images in _scaled(name, train, test))
    return Examples(train, train_labels), Examples(test, test_labels)


def _scaled(name: str, train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    if name == "cifar-10":
        centre = train.mean(0)
        return train - centre, test - centre
    if name == "digits":
        return train, test
    return train / 256, test / 256
