"""The networks for one's own data: a perceptron for tables, a small ResNet for images, or one by its name."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import torch
from torch import Tensor, nn

from tribayes._errors import refusal
from tribayes._own_randomness import lent
from tribayes.own.setting import MLP, RESNET, OwnSetting
from tribayes.posterior.streams import Stream

Shape = tuple[int, ...]

_STAGES = 3  # of the ResNet; each has half the size and twice the channels of the one before
_EXAMPLE = "write e.g. --network mynets:build, for def build(shape, outputs) in mynets.py"


def build_network(setting: OwnSetting, shape: Shape, outputs: int, seed: int) -> nn.Module:
    """The network of a setting, initialised from the seed: for inputs of a shape, without the batch."""
    with lent([Stream((seed, 0)).generator(torch.device("cpu"))]):  # torch initialises by its global one
        if setting.network == MLP:
            return perceptron(shape, outputs, setting.width, setting.depth)
        if setting.network == RESNET:
            return SmallResNet(shape[0], outputs, setting.width, setting.depth)
        return _named(setting.network, shape, outputs)


def perceptron(shape: Shape, outputs: int, width: int, depth: int) -> nn.Sequential:
    """`depth` hidden layers of ReLUs. Where inputs are images they are laid flat.

    >>> perceptron((4,), 3, width=50, depth=1)
    Sequential(
      (0): Linear(in_features=4, out_features=50, bias=True)
      (1): ReLU()
      (2): Linear(in_features=50, out_features=3, bias=True)
    )
    """
    layers: list[nn.Module] = [nn.Flatten()] if len(shape) > 1 else []
    inputs = torch.Size(shape).numel()
    for _ in range(depth):
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


class SmallResNet(nn.Module):
    """A ResNet of three stages for images of any size from 8×8 on, with BatchNorm (which stays without noise).

    Example:
        >>> SmallResNet(3, 10, width=16, depth=1)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    def __init__(self, channels: int, outputs: int, width: int, depth: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        blocks: list[nn.Module] = []
        for stage in range(_STAGES):
            for block in range(depth):
                stride = 2 if stage and not block else 1
                blocks.append(_Block(width * 2 ** max(0, stage - (not block)), width * 2**stage, stride))
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(width * 2 ** (_STAGES - 1), outputs)

    def forward(self, images: Tensor) -> Tensor:
        found: Tensor = self.head(self.blocks(self.stem(images)).mean((2, 3)))
        return found


class _Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
        self.way = nn.Identity() if before == after else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norms[0](self.first(x)).relu()
        return (self.norms[1](self.second(inner)) + self.way(x)).relu()


def _named(word: str, shape: Shape, outputs: int) -> nn.Module:
    """What `module:function` makes of (shape, outputs); the module is looked for in the working folder, too."""
    module, separator, name = word.partition(":")
    if not (separator and module and name):
        raise refusal("--network", word, f"be {MLP}, {RESNET}, or module:function", _EXAMPLE)
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise refusal("--network", word, f"be there ({error})", _EXAMPLE) from error
    network = function(shape, outputs)
    if not isinstance(network, nn.Module):
        raise refusal("--network", word, f"return an nn.Module, but it returned a {type(network).__name__}", _EXAMPLE)
    return network


def check_network(network: nn.Module, word: str, shape: Shape, outputs: int) -> None:
    """Refuse a network that does not give (N, outputs) for a batch of such inputs."""
    network.eval()
    with torch.no_grad():
        try:
            given = network(torch.zeros(2, *shape))
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise refusal("--network", word, f"take inputs of shape {shape} ({reason})", _EXAMPLE) from error
    network.train()
    if not isinstance(given, Tensor) or given.shape != (2, outputs):
        found = tuple(given.shape) if isinstance(given, Tensor) else type(given).__name__
        raise refusal("--network", word, f"give {(2, outputs)} for two examples, but it gave {found}", _EXAMPLE)
