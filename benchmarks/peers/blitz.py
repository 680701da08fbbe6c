"""BLiTZ: layers that draw their weights and estimate the divergence from the draw."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from blitz.losses import kl_divergence_from_nn
from blitz.modules import BayesianConv2d, BayesianLinear
from torch import Tensor, nn

from benchmarks.learners import Variational
from benchmarks.peers.replacing import replace_layers


class Blitz(Variational):
    """Its layers in place of torch's, with the network's weights as means."""

    note = "argument checks of torch.distributions off: they would wait for the GPU at every step"

    def converted(self, network: nn.Module) -> nn.Module:
        with _unchecked_distributions():
            return replace_layers(network, _convolution, _linear)

    def divergence(self) -> Tensor:
        return kl_divergence_from_nn(self.model)


def _convolution(layer: nn.Conv2d) -> nn.Module:
    made = BayesianConv2d(
        layer.in_channels,
        layer.out_channels,
        layer.kernel_size,
        groups=layer.groups,
        stride=layer.stride,
        padding=layer.padding,
        dilation=layer.dilation,
        bias=layer.bias is not None,
    )
    return _with_means(made, layer)


def _linear(layer: nn.Linear) -> nn.Module:
    return _with_means(BayesianLinear(layer.in_features, layer.out_features, layer.bias is not None), layer)


@torch.no_grad()
def _with_means(made: nn.Module, layer: nn.Conv2d | nn.Linear) -> nn.Module:
    made.weight_sampler.mu.copy_(layer.weight)
    if layer.bias is not None:
        made.bias_sampler.mu.copy_(layer.bias)
    return made


@contextmanager
def _unchecked_distributions() -> Iterator[None]:
    before = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        torch.distributions.Distribution.set_default_validate_args(before)
