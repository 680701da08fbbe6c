"""The networks of the paper's experiments, as Caffe defines them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class LeNet(nn.Module):
    """LeNet as in the paper's Section IV-A: two convolutions without activation, one hidden layer with ReLU.

    Weights start by Caffe's Xavier rule, uniform in ±√(3 / fan_in); biases at 0. Images are (N, 1, 28, 28).
    """

    def __init__(self, hidden: int = 100, dropout: float = 0.0) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc1 = nn.Linear(50 * 4 * 4, hidden)
        self.fc2 = nn.Linear(hidden, 10)
        self.dropout = SeededDropout(dropout)
        for layer in (self.conv1, self.conv2, self.fc1, self.fc2):
            _start(layer, None)

    def forward(self, images: Tensor) -> Tensor:
        features = F.max_pool2d(self.conv1(images), 2)
        features = F.max_pool2d(self.conv2(features), 2)
        hidden = self.dropout(F.relu(self.fc1(features.flatten(1))))
        return self.fc2(hidden)


class DigitsNet(nn.Module):
    """A small LeNet for the 8×8 images of scikit-learn's digits. Images are (N, 1, 8, 8)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * 2 * 2, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, images: Tensor) -> Tensor:
        features = F.max_pool2d(F.relu(self.conv1(images)), 2)
        features = F.max_pool2d(F.relu(self.conv2(features)), 2)
        return self.fc2(F.relu(self.fc1(features.flatten(1))))


class SeededDropout(nn.Module):
    """Dropout whose masks come from a generator of its own, so that runs side by side do not disturb each other."""

    generator: torch.Generator | None = None  # None: torch's global one

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, features: Tensor) -> Tensor:
        if not self.training or not self.probability:
            return features
        noise = torch.rand(features.shape, device=features.device, generator=self.generator)
        return features * (noise >= self.probability) / (1 - self.probability)


class WithinChannelNorm(nn.Module):
    """Caffe's local response normalisation within a channel: x s^−β with s = 1 + α · mean of squares over 3×3.

    torch's `LocalResponseNorm` works across channels and is another function.
    """

    def __init__(self, alpha: float = 5e-5, beta: float = 0.75) -> None:
        super().__init__()
        self.alpha, self.beta = alpha, beta

    def forward(self, features: Tensor) -> Tensor:
        return _Normalise.apply(features, self.alpha, self.beta)[0]


class _Normalise(torch.autograd.Function):
    """With its gradient written out: the mean over a window is its own transpose, so it takes one more pooling."""

    generate_vmap_rule = True

    @staticmethod
    def forward(features: Tensor, alpha: float, beta: float) -> tuple[Tensor, Tensor, Tensor]:
        scale = 1 + alpha * _window_mean(features.square())
        power = scale.pow(-beta)
        return features * power, scale, power

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float, float], output: tuple[Tensor, Tensor, Tensor]) -> None:
        features, ctx.alpha, ctx.beta = inputs
        normalised, scale, power = output
        ctx.mark_non_differentiable(scale, power)
        ctx.save_for_backward(features, normalised, scale, power)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor, None, None]:
        features, normalised, scale, power = ctx.saved_tensors
        through_scale = _window_mean(grad * normalised / scale)
        gradient = torch.addcmul(grad * power, features, through_scale, value=-2 * ctx.alpha * ctx.beta)
        return gradient, None, None


def _window_mean(features: Tensor) -> Tensor:
    """Over 3×3 windows; beyond the border lie zeros that count."""
    return F.avg_pool2d(features, 3, stride=1, padding=1)


class Cifar10Full(nn.Module):
    """Caffe's CIFAR10_full: three 5×5 convolutions and one fully connected layer; pooling rounds up.

    Weights start Gaussian with the standard deviations of Caffe's definition; biases at 0. Images are (N, 3, 32, 32).
    """

    initial_std = (1e-4, 0.01, 0.01, 0.01)

    def __init__(self, xavier: bool = False) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 32, 5, padding=2)
        self.conv3 = nn.Conv2d(32, 64, 5, padding=2)
        self.fc = nn.Linear(64 * 4 * 4, 10)
        self.norm = WithinChannelNorm()
        for layer, std in zip((self.conv1, self.conv2, self.conv3, self.fc), self.initial_std, strict=True):
            _start(layer, None if xavier else std)

    def forward(self, images: Tensor) -> Tensor:
        features = F.relu(F.max_pool2d(self.conv1(images), 3, 2, ceil_mode=True))
        features = F.relu(self.conv2(self.norm(features)))
        features = self.norm(F.avg_pool2d(features, 3, 2, ceil_mode=True))
        features = F.avg_pool2d(F.relu(self.conv3(features)), 3, 2, ceil_mode=True)
        return self.fc(features.flatten(1))


def _start(layer: nn.Module, std: float | None) -> None:
    """Gaussian weights, or without a standard deviation those of Caffe's Xavier rule; biases at 0."""
    weight, bias = cast(Tensor, layer.weight), cast(Tensor, layer.bias)
    bound = math.sqrt(3 / weight[0].numel())
    nn.init.uniform_(weight, -bound, bound) if std is None else nn.init.normal_(weight, std=std)
    nn.init.zeros_(bias)


class Architecture(NamedTuple):
    """A network by name: how it is made, of dropout and xavier, and the images it takes."""

    build: Callable[[float, bool], nn.Module]
    takes: tuple[int, int, int]


NETWORKS = {
    "lenet-100": Architecture(lambda dropout, _: LeNet(100, dropout), (1, 28, 28)),
    "lenet-250": Architecture(lambda dropout, _: LeNet(250, dropout), (1, 28, 28)),
    "cifar10-full": Architecture(lambda _, xavier: Cifar10Full(xavier), (3, 32, 32)),
    "digits": Architecture(lambda *_: DigitsNet(), (1, 8, 8)),
}
