"""How the expectation over weights is estimated: which weights a step meets, and how often (docs/estimators.md).

The local estimator draws noise where it acts, on the outputs of a layer and for each example anew: every example meets
weights of its own. They are never formed: the layer's output for one example is Gaussian with known moments
(nn/preactivation.py), and is drawn. Exact for linear layers on inputs (N, I) and for biases; else every position is
right by itself, but their noises are independent, though they share the weights.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import torch
from torch import Tensor, nn

from tribayes._errors import refusal
from tribayes.nn.calling import Arguments
from tribayes.nn.convert import bayesian_modules, kl
from tribayes.nn.module import BayesianModule
from tribayes.nn.places import Draw
from tribayes.nn.preactivation import Preactivation, Window, preactivation
from tribayes.nn.stage import ModelDraw, Stage
from tribayes.nn.standin import LAYERS, RandomWeight, StandIn, stand_ins
from tribayes.posterior.family import Law
from tribayes.posterior.shards import whole
from tribayes.posterior.streams import Randomness, Stream, checked, generator_of, standard_normals

ESTIMATORS = ("plain", "local", "antithetic")


def check_estimator(estimator: str, samples: int) -> None:
    """Refuse an unknown name, and an odd number of antithetic draws."""
    if estimator not in ESTIMATORS:
        raise refusal("estimator", estimator, f"be one of {list(ESTIMATORS)}", "correct the word")
    if estimator == "antithetic" and samples % 2:
        remedy = "pass samples=2: a draw and its mirror image"
        raise refusal("samples", samples, 'be even for estimator="antithetic"', remedy)


def sampled_outputs(
    stage: Stage, arguments: Arguments, estimator: str, samples: int, randomness: Randomness
) -> tuple[list[Any], Tensor]:
    """What the model answers, `samples` times, under the weights of that estimator; and KL(q ‖ p)."""
    if torch.compiler.is_compiling() and estimator == "plain":
        return [stage.model(*arguments.args, **arguments.kwargs) for _ in range(samples)], kl(stage.model)
    draws, divergence = _draws(stage.model, estimator, samples, randomness)
    return [stage.run(draw, *arguments.args, **arguments.kwargs) for draw in draws], divergence


def _draws(model: nn.Module, estimator: str, samples: int, randomness: Randomness) -> tuple[list[ModelDraw], Tensor]:
    """The draws of one step, and the divergence, which is cheapest together with the first of them."""
    modules = bayesian_modules(model)
    source = checked(randomness)
    if estimator == "local":
        return [local_weights(model, _part(source, number)) for number in range(samples)], kl(model)
    draws: list[ModelDraw] = []
    for number in range(samples if estimator == "plain" else samples // 2):
        sources = [(module, _part(source, number, place)) for place, module in enumerate(modules)]
        if number:
            drawn = [module.sample_weights(generator=own) for module, own in sources]
        else:
            first = [module.sample_weights_and_kl(generator=own) for module, own in sources]
            drawn, divergence = [weights for weights, _ in first], reduce(add, (term for _, term in first))
        draws.append(drawn)
        if estimator == "antithetic":
            draws.append([mirror_image(module, draw) for module, draw in zip(modules, drawn, strict=True)])
    return draws, divergence


def _part(source: torch.Generator | Stream | None, *place: int) -> torch.Generator | Stream | None:
    """A generator goes on; a stream has a branch for every draw and module."""
    return source.child(*place) if isinstance(source, Stream) else source


def mirror_image(module: BayesianModule, draw: Draw) -> dict[str, Tensor]:
    """2m − w, which has the law of w: w − m is linear in the normals."""
    return {name: 2 * whole(mean) - draw[name] for name, mean in module.means()}


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
