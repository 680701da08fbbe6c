"""The local estimator: noise drawn where it acts, on the outputs of a layer and for each example anew.

One draw of the weights serves a whole batch, so its luck does not average out over the examples. Here every example
meets weights of its own. They are never formed: the layer's output for one example is Gaussian with known moments
(nn/preactivation.py), and is drawn. The gradient has the same expectation and a smaller variance.

- Linear layers on inputs (N, I): exact. Every example's outputs have the joint law that a draw of W gives them.
- Convolutions, and linear layers on inputs with more axes: exact at every position by itself. In one network all
  positions share the weights; here their noises are independent. The objective is then a neighbour of the evidence
  lower bound, not the bound itself. A random bias is drawn once per example, for all its positions: exact.

The price is two more products per layer for the variance, and N (2O + 1) normals instead of O · I.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tribayes.nn.preactivation import Preactivation, Window, preactivation
from tribayes.nn.stage import ModelDraw
from tribayes.nn.standin import LAYERS, RandomWeight, StandIn, stand_ins
from tribayes.posterior.family import Law
from tribayes.posterior.streams import Randomness, generator_of, standard_normals


class LocalWeight(RandomWeight):
    """Stands for a random weight; the layer that uses it draws its outputs from their law."""

    chosen = ("estimator", "local")
    remedy = 'use estimator="plain", or leave that weight out: to_bayesian(..., where=...)'

    generator: torch.Generator | None


def local_weights(model: nn.Module, generator: Randomness = None) -> ModelDraw:
    """The draw to run a model under for one pass with local noise: each row of its inputs meets weights of its own.

    Example:
        >>> from tribayes.nn.stage import Stage
        >>> model = tribayes.to_bayesian(nn.Linear(3, 2))
        >>> outputs = Stage(model).run(local_weights(model), torch.ones(5, 3))
        >>> len(outputs.unique())
        10
    """

    def build(name: str, mean: Tensor, law: Law) -> LocalWeight:
        weight = LocalWeight.of(name, mean, law)
        weight.generator = source[mean.device]
        return weight

    devices = {parameter.device for parameter in model.parameters()}
    source = {device: generator_of(generator, device) for device in devices}
    return stand_ins(model, build)


def _layer(inputs: Tensor, weight: Tensor, bias: Tensor | None = None, *options: Any, **named: Any) -> Tensor:
    """The rule of F.linear and the convolutions."""
    if isinstance(inputs, StandIn) or weight.ndim < 2:
        raise LocalWeight.refused("a layer's input", (inputs, weight))
    window = Window.of(weight.shape[2:], *options, **named)
    if isinstance(weight, LocalWeight):
        law = preactivation(weight.noise(), inputs, window)
        outputs = outputs_from(law, normals_for(law, weight.generator)).to(inputs.dtype)
    else:
        outputs = window.slide(window.padded(inputs), weight)
    return outputs if bias is None else outputs + _bias(bias, outputs, window)


LocalWeight.rules = dict.fromkeys(LAYERS, _layer)


def normals_for(law: Preactivation, generator: torch.Generator | None = None) -> Tensor:
    """The normals a draw needs: one for each output and, with correlations, one before, between and after them."""
    shape = list(law.mean.shape)
    shape[law.axis] = shape[law.axis] if law.ends is None else 2 * shape[law.axis] + 1
    return standard_normals(torch.Size(shape), law.mean, generator)


def outputs_from(law: Preactivation, normals: Tensor) -> Tensor:
    """Outputs with the law's mean and covariance, differentiable in both: a linear function of the normals."""
    outputs = law.mean.shape[law.axis]
    # v may come out as a rounding error below zero, and the root of zero has no derivative
    deviation = law.inner.clamp(min=torch.finfo(law.inner.dtype).tiny).sqrt()
    drawn = torch.addcmul(law.mean, deviation, normals.narrow(law.axis, 0, outputs))
    if law.ends is None:
        return drawn
    before, after = (normals.narrow(law.axis, start, outputs) for start in (outputs, outputs + 1))
    return drawn + law.ends[0] * before + law.ends[1] * after


def _bias(bias: Tensor, outputs: Tensor, window: Window) -> Tensor:
    """The bias to add to outputs (..., O, *space); a random one is drawn for every example."""
    if isinstance(bias, LocalWeight):
        examples = outputs.shape[: window.channels]
        bias = bias.bias_law().rsample(examples, bias.generator).to(outputs.dtype)
    return bias.reshape(*bias.shape, *[1] * window.axes)
