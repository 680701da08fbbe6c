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
    outputs = []
    for draw in draws:
        with holding(model, draw):
            outputs.append(model(*arguments))
    return outputs


def plain_with_divergence(model: nn.Module, arguments: tuple[Any, ...], samples: int) -> tuple[list[Any], Tensor]:
    """The plain estimator's outputs and KL(q ‖ p), which is cheapest together with the first draw."""
    modules = bayesian_modules(model)
    if torch.compiler.is_compiling() or any(module.held is not None for module in modules):
        return sampled_outputs(model, arguments, "plain", samples), kl(model)
    draws, divergences = zip(*(module.sample_weights_and_kl() for module in modules), strict=True)
    with holding(model, list(draws)):
        first = model(*arguments)
    return [first, *sampled_outputs(model, arguments, "plain", samples - 1)], sum(divergences[1:], divergences[0])


def local_draws(model: nn.Module, samples: int) -> Iterator[ModelDraw]:
    """Stand-ins for the weights, anew for each pass."""
    return (local_weights(model) for _ in range(samples))


def antithetic_draws(model: nn.Module, samples: int) -> Iterator[ModelDraw]:
    """Draws w in turn with their mirror images 2m − w, which have the same law: w − m is linear in the normals."""
    modules = bayesian_modules(model)
    for _ in range(samples // 2):
        draws = [module.sample_weights() for module in modules]
        yield draws
        yield [
            {name: 2 * mean - draw[name] for name, mean in module.means()}
            for module, draw in zip(modules, draws, strict=True)
        ]
