"""How the expectation over weights is estimated: which weights a step meets, and how often.

| estimator | weights of a step | gradient |
| --- | --- | --- |
| "plain" | `samples` draws, each for the whole batch | unbiased |
| "antithetic" | half as many draws w, each with its mirror image 2m − w | unbiased; odd parts of the noise cancel |
| "local" | a draw for each example and layer, made on the layer's outputs | unbiased for linear layers (local.py) |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from tribayes._errors import refusal
from tribayes.inference.local import local_weights
from tribayes.nn.convert import bayesian_modules, kl
from tribayes.nn.holding import ModelDraw, holding
from tribayes.nn.module import BayesianModule, Draw

ESTIMATORS = ("plain", "local", "antithetic")


def check_estimator(estimator: str, samples: int) -> None:
    """Refuse an unknown name, and an odd number of antithetic draws."""
    if estimator not in ESTIMATORS:
        raise refusal("estimator", estimator, f"be one of {list(ESTIMATORS)}", "correct the word")
    if estimator == "antithetic" and samples % 2:
        remedy = "pass samples=2: a draw and its mirror image"
        raise refusal("samples", samples, 'be even for estimator="antithetic"', remedy)


def sampled_outputs(model: nn.Module, arguments: tuple[Any, ...], estimator: str, samples: int) -> list[Any]:
    """What the model answers, `samples` times, under the weights of that estimator."""
    if estimator == "plain":
        return [model(*arguments) for _ in range(samples)]
    if any(module.held is not None for module in bayesian_modules(model)):
        remedy = 'use estimator="plain", or call it outside of `holding`'
        raise refusal("estimator", estimator, 'be "plain" while the model holds given weights', remedy)
    draws = antithetic_draws(model, samples) if estimator == "antithetic" else local_draws(model, samples)
    return [_under(model, draw, arguments) for draw in draws]


def outputs_with_divergence(
    model: nn.Module, arguments: tuple[Any, ...], estimator: str, samples: int
) -> tuple[list[Any], Tensor]:
    """`sampled_outputs` and KL(q ‖ p), which is cheapest together with the first draw."""
    modules = bayesian_modules(model)
    held = any(module.held is not None for module in modules)
    if estimator == "local" or held or torch.compiler.is_compiling():
        return sampled_outputs(model, arguments, estimator, samples), kl(model)
    draws, divergences = zip(*(module.sample_weights_and_kl() for module in modules), strict=True)
    first = [list(draws)]
    if estimator == "antithetic":
        first.append([mirror_image(module, draw) for module, draw in zip(modules, draws, strict=True)])
    outputs = [_under(model, draw, arguments) for draw in first]
    outputs += sampled_outputs(model, arguments, estimator, samples - len(first))
    return outputs, sum(divergences[1:], divergences[0])


def mirror_image(module: BayesianModule, draw: Draw) -> dict[str, Tensor]:
    """2m − w, which has the law of w: w − m is linear in the normals."""
    return {name: 2 * mean - draw[name] for name, mean in module.means()}


def _under(model: nn.Module, draw: ModelDraw, arguments: tuple[Any, ...]) -> Any:
    with holding(model, draw):
        return model(*arguments)


def local_draws(model: nn.Module, samples: int) -> Iterator[ModelDraw]:
    """Stand-ins for the weights, anew for each pass."""
    return (local_weights(model) for _ in range(samples))


def antithetic_draws(model: nn.Module, samples: int) -> Iterator[ModelDraw]:
    """Draws in turn with their mirror images."""
    modules = bayesian_modules(model)
    for _ in range(samples // 2):
        draws = [module.sample_weights() for module in modules]
        yield draws
        yield [mirror_image(module, draw) for module, draw in zip(modules, draws, strict=True)]
