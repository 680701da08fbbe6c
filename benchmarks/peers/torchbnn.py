"""torchbnn: layers with a log standard deviation for each weight."""

from __future__ import annotations

import torch
import torchbnn
from torch import Tensor, nn
from torchbnn.functional import _kl_loss

from benchmarks.learners import Variational
from benchmarks.peers.replacing import replace_layers

_PRIOR_MEAN, _PRIOR_STD = 0.0, 0.1


class TorchBnn(Variational):
    """Its layers in place of torch's, with the network's weights as means."""

    note = "its divergence summed tensor by tensor: its own sum over a model makes tensors on the host at every step"

    def converted(self, network: nn.Module) -> nn.Module:
        return replace_layers(network, _convolution, _linear)

    def divergence(self) -> Tensor:
        layers = (torchbnn.BayesConv2d, torchbnn.BayesLinear)
        return sum(_of_layer(layer) for layer in self.model.modules() if isinstance(layer, layers))


def _of_layer(layer: nn.Module) -> Tensor:
    prior = layer.prior_mu, layer.prior_log_sigma
    weights = _kl_loss(layer.weight_mu, layer.weight_log_sigma, *prior)
    return weights + _kl_loss(layer.bias_mu, layer.bias_log_sigma, *prior) if layer.bias else weights


def _convolution(layer: nn.Conv2d) -> nn.Module:
    made = torchbnn.BayesConv2d(
        _PRIOR_MEAN,
        _PRIOR_STD,
        layer.in_channels,
        layer.out_channels,
        layer.kernel_size,
        layer.stride,
        layer.padding,
        layer.dilation,
        layer.groups,
        layer.bias is not None,
    )
    return _with_means(made, layer)


def _linear(layer: nn.Linear) -> nn.Module:
    sizes = layer.in_features, layer.out_features, layer.bias is not None
    return _with_means(torchbnn.BayesLinear(_PRIOR_MEAN, _PRIOR_STD, *sizes), layer)


@torch.no_grad()
def _with_means(made: nn.Module, layer: nn.Conv2d | nn.Linear) -> nn.Module:
    made.weight_mu.copy_(layer.weight)
    if layer.bias is not None:
        made.bias_mu.copy_(layer.bias)
    return made
