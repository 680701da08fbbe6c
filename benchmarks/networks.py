"""The networks that steps are timed on, each with the batch, precision and memory layout it is trained with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tribayes.recipes.networks import Cifar10Full, LeNet


@dataclass(frozen=True)
class Task:
    """A network and what a training step of it looks like."""

    name: str
    title: str
    build: Callable[[], nn.Module]
    image: tuple[int, int, int]
    batch: int
    classes: int
    data_size: int  # examples that the divergence is spread over
    half: bool = False  # bf16 by autocast, weights in float32
    channels_last: bool = False

    def network(self) -> nn.Module:
        """The network, always with the same initial weights."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self.build()

    def examples(self, device: torch.device, count: int | None = None) -> tuple[Tensor, Tensor]:
        """Images and labels on the device: made up, for time does not depend on what is on them."""
        source = torch.Generator().manual_seed(1)
        count = self.batch if count is None else count
        images = torch.randn(count, *self.image, generator=source).to(device, memory_format=self.memory_format)
        return images, torch.randint(self.classes, (count,), generator=source).to(device)

    @property
    def memory_format(self) -> torch.memory_format:
        return torch.channels_last if self.channels_last else torch.contiguous_format

    def precision(self, device: torch.device) -> AbstractContextManager[None]:
        """The context that forward passes and losses are computed in."""
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=self.half)

    def smaller(self, batch: int) -> Task:
        return replace(self, batch=batch)


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and a shortcut."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.shortcut = _shortcut(inputs, width * self.expansion, stride)

    def forward(self, features: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(features)))
        return F.relu(self.bn2(self.conv2(out)) + self.shortcut(features))


class Bottleneck(nn.Module):
    """1×1, 3×3 (with the stride) and 1×1 convolutions, and a shortcut."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * self.expansion
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.shortcut = _shortcut(inputs, outputs, stride)

    def forward(self, features: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(features)))
        out = F.relu(self.bn2(self.conv2(out)))
        return F.relu(self.bn3(self.conv3(out)) + self.shortcut(features))


class ResNet(nn.Module):
    """He et al. (2016). `small_images`: a 3×3 stem without pooling, as is usual for images of 32×32."""

    def __init__(
        self, block: type[BasicBlock | Bottleneck], depths: tuple[int, ...], classes: int, small_images: bool
    ) -> None:
        super().__init__()
        stem = (3, 1, 1) if small_images else (7, 2, 3)
        self.conv1 = nn.Conv2d(3, 64, *stem, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.pool = nn.Identity() if small_images else nn.MaxPool2d(3, 2, 1)
        inputs, stages = 64, []
        for number, depth in enumerate(depths):
            width = 64 * 2**number
            for place in range(depth):
                stages.append(block(inputs, width, 2 if number and not place else 1))
                inputs = width * block.expansion
        self.blocks = nn.Sequential(*stages)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, images: Tensor) -> Tensor:
        features = self.pool(F.relu(self.bn1(self.conv1(images))))
        return self.fc(self.blocks(features).mean((2, 3)))


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    if inputs == outputs and stride == 1:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


def resnet18(classes: int = 10) -> ResNet:
    return ResNet(BasicBlock, (2, 2, 2, 2), classes, small_images=True)


def resnet50(classes: int = 1000) -> ResNet:
    return ResNet(Bottleneck, (3, 4, 6, 3), classes, small_images=False)


_MODERN = {"half": True, "channels_last": True}  # how such networks are trained on a GPU

_ALL = (
    Task("lenet-100", "LeNet-100", lambda: LeNet(100), (1, 28, 28), 64, 10, 60_000),
    Task("cifar10-full", "CIFAR10_full", Cifar10Full, (3, 32, 32), 100, 10, 50_000),
    Task("resnet-18", "ResNet-18, 32×32", resnet18, (3, 32, 32), 256, 10, 50_000, half=True, channels_last=True),
    Task(
        "resnet-50", "ResNet-50, 224×224", resnet50, (3, 224, 224), 64, 1000, 1_281_167, half=True, channels_last=True
    ),
)

TASKS = {task.name: task for task in _ALL}
