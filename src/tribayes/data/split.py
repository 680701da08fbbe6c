"""What every data set becomes: four tensors."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Split(NamedTuple):
    """Images (N, C, H, W) and labels (N,), int64, for training and for testing.

    Images are uint8 from 0 to 255; those of the embedded digits are floats in [0, 1].
    """

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor

    def to(self, device: torch.device | str) -> Split:
        """The same on a device, all of it at once: CIFAR-10, the largest, is 184 MB."""
        return Split(*(tensor.to(device) for tensor in self))
