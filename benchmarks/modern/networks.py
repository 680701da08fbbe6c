"""The networks of the study: ResNet-18 for small images, WideResNet-16-4, a small ViT, and LeNet-100.

Each has `features`, everything before its last layer, and `head`, the last layer. With `dropout` they drop after every
stage and before the head; without it those places are empty, so that no arm pays for another's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Image = tuple[int, int, int]  # channels, height, width


class Classifier(nn.Module, ABC):
    """Images → features (N, D) → logits (N, C)."""

    def __init__(self, width: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.drop = dropout_or_nothing(dropout)
        self.head = nn.Linear(width, classes)

    @abstractmethod
    def features(self, images: Tensor) -> Tensor:
        """What the last layer sees."""

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.drop(self.features(images)))
        return logits


class ResNet(Classifier):
    """He et al. (2016) for images of 32×32: a 3×3 stem without pooling, four stages of two blocks."""

    def __init__(self, image: Image, classes: int, dropout: float = 0.0, width: int = 64, stages: int = 4) -> None:
        super().__init__(width * 2 ** (stages - 1), classes, dropout)
        self.stem = convolution(image[0], width)
        self.norm = nn.BatchNorm2d(width)
        inputs, made = width, []
        for number in range(stages):
            outputs = width * 2**number
            blocks = [ResidualBlock(inputs, outputs, 2 if number else 1), ResidualBlock(outputs, outputs, 1)]
            made.append(nn.Sequential(*blocks, dropout_or_nothing(dropout)))
            inputs = outputs
        self.stages = nn.Sequential(*made)

    def features(self, images: Tensor) -> Tensor:
        pooled: Tensor = self.stages(F.relu(self.norm(self.stem(images)))).mean((2, 3))
        return pooled


class ResidualBlock(nn.Module):
    """Two 3×3 convolutions, normalised after each, and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first, self.first_norm = convolution(inputs, outputs, stride), nn.BatchNorm2d(outputs)
        self.second, self.second_norm = convolution(outputs, outputs), nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(convolution(inputs, outputs, stride, 1), nn.BatchNorm2d(outputs))

    def forward(self, features: Tensor) -> Tensor:
        hidden = F.relu(self.first_norm(self.first(features)))
        return F.relu(self.second_norm(self.second(hidden)) + self.shortcut(features))


class WideResNet(Classifier):
    """Zagoruyko and Komodakis (2016): three stages of pre-activated blocks; depth = 6 · blocks + 4."""

    def __init__(self, image: Image, classes: int, dropout: float = 0.0, widen: int = 4, blocks: int = 2) -> None:
        super().__init__(64 * widen, classes, dropout)
        self.stem = convolution(image[0], 16)
        inputs, made = 16, []
        for number in range(3):
            outputs = 16 * widen * 2**number
            first = WideBlock(inputs, outputs, 2 if number else 1)
            rest = [WideBlock(outputs, outputs, 1) for _ in range(blocks - 1)]
            made.append(nn.Sequential(first, *rest, dropout_or_nothing(dropout)))
            inputs = outputs
        self.stages = nn.Sequential(*made)
        self.norm = nn.BatchNorm2d(inputs)

    def features(self, images: Tensor) -> Tensor:
        return F.relu(self.norm(self.stages(self.stem(images)))).mean((2, 3))


class WideBlock(nn.Module):
    """Normalisation and ReLU before each of two 3×3 convolutions; the first pair is shared with the shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first_norm, self.first = nn.BatchNorm2d(inputs), convolution(inputs, outputs, stride)
        self.second_norm, self.second = nn.BatchNorm2d(outputs), convolution(outputs, outputs)
        self.same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if self.same else convolution(inputs, outputs, stride, 1)

    def forward(self, features: Tensor) -> Tensor:
        ready = F.relu(self.first_norm(features))
        hidden = self.second(F.relu(self.second_norm(self.first(ready))))
        shortcut: Tensor = features if self.same else self.shortcut(ready)
        return hidden + shortcut


class VisionTransformer(Classifier):
    """Dosovitskiy et al. (2021), small: patches, learned places, stages of two blocks, the mean of all tokens."""

    def __init__(
        self,
        image: Image,
        classes: int,
        dropout: float = 0.0,
        patch: int = 4,
        depth: int = 6,
        width: int = 192,
        heads: int = 3,
    ) -> None:
        super().__init__(width, classes, dropout)
        self.patches = nn.Conv2d(image[0], width, patch, patch)
        self.places = nn.Parameter(0.02 * torch.randn(1, (image[1] // patch) * (image[2] // patch), width))
        stages: list[nn.Module] = []
        for _ in range(depth // 2):
            stages += [TransformerBlock(width, heads), TransformerBlock(width, heads), dropout_or_nothing(dropout)]
        self.stages = nn.Sequential(*stages)
        self.norm = nn.LayerNorm(width)

    def features(self, images: Tensor) -> Tensor:
        tokens = self.patches(images).flatten(2).transpose(1, 2) + self.places
        pooled: Tensor = self.norm(self.stages(tokens)).mean(1)
        return pooled


class TransformerBlock(nn.Module):
    """Attention, then a perceptron of four times the width, each on normalised tokens and added to them."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mixed_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.questions = nn.Linear(width, 3 * width)  # queries, keys and values
        self.answers = nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.attended(self.attention_norm(tokens))
        mixed: Tensor = self.contract(F.gelu(self.expand(self.mixed_norm(tokens))))
        return tokens + mixed

    def attended(self, tokens: Tensor) -> Tensor:
        count, length, width = tokens.shape
        split = self.questions(tokens).view(count, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind()
        joined = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(count, length, width)
        answer: Tensor = self.answers(joined)
        return answer


class LeNet(Classifier):
    """The paper's LeNet-100: two convolutions with pooling, one hidden layer of 100."""

    def __init__(self, image: Image, classes: int, dropout: float = 0.0, hidden: int = 100) -> None:
        super().__init__(hidden, classes, dropout)
        channels, height, width = image
        self.first, self.second = nn.Conv2d(channels, 20, 5), nn.Conv2d(20, 50, 5)
        left = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
        self.stages = nn.ModuleList(dropout_or_nothing(dropout) for _ in range(2))
        self.hidden = nn.Linear(50 * left[0] * left[1], hidden)

    def features(self, images: Tensor) -> Tensor:
        seen = self.stages[0](F.max_pool2d(self.first(images), 2))
        seen = self.stages[1](F.max_pool2d(self.second(seen), 2))
        return F.relu(self.hidden(seen.flatten(1)))


def convolution(inputs: int, outputs: int, stride: int = 1, size: int = 3) -> nn.Conv2d:
    """Without bias, since a normalisation follows or has gone before; weights by He's rule for the way back."""
    made = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
    nn.init.kaiming_normal_(made.weight, mode="fan_out", nonlinearity="relu")
    return made


def dropout_or_nothing(probability: float) -> nn.Module:
    return nn.Dropout(probability) if probability else nn.Identity()


@dataclass(frozen=True)
class Kind:
    """A network by name, and how such a network is trained: the same way in every arm."""

    build: Callable[[Image, int, float], Classifier]
    optimizer: str = "sgd"
    lr: float = 0.2
    weight_decay: float = 5e-4
    channels_last: bool = True


NETWORKS: dict[str, Kind] = {
    "resnet18": Kind(ResNet),
    "wrn16-4": Kind(WideResNet),
    "vit": Kind(VisionTransformer, "adamw", lr=1e-3, weight_decay=0.05, channels_last=False),
    "lenet100": Kind(LeNet, lr=0.02, channels_last=False),  # without normalisation 0.05 loses its way
}
