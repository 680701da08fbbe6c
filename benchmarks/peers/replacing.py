"""Exchange the convolutions and linear layers of a network for a library's own, for libraries that do not."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn


def replace_layers(
    module: nn.Module, convolution: Callable[[nn.Conv2d], nn.Module], linear: Callable[[nn.Linear], nn.Module]
) -> nn.Module:
    """In place, at every depth."""
    for name, child in module.named_children():
        if isinstance(child, nn.Conv2d):
            setattr(module, name, convolution(child))
        elif isinstance(child, nn.Linear):
            setattr(module, name, linear(child))
        else:
            replace_layers(child, convolution, linear)
    return module
