"""How the expectation over weights is estimated: which weights a step meets, and how often.

| estimator | weights of a step | gradient |
| --- | --- | --- |
| "plain" | `samples` draws, each for the whole batch | unbiased |
| "antithetic" | half as many draws w, each with its mirror image 2m − w | unbiased; odd parts of the noise cancel |
| "local" | a draw for each example and layer, made on the layer's outputs | unbiased for linear layers (local.py) |
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import torch
from torch import Tensor, nn

from tribayes._errors import refusal
from tribayes.inference.local import local_weights
from tribayes.nn.convert import bayesian_modules, kl
from tribayes.nn.module import BayesianModule, Draw
from tribayes.nn.stage import ModelDraw, Stage
from tribayes.posterior.streams import Randomness, Stream, checked

ESTIMATORS = ("plain", "local", "antithetic")


def check_estimator(estimator: str, samples: int) -> None:
    """Refuse an unknown name, and an odd number of antithetic draws."""
    if estimator not in ESTIMATORS:
        raise refusal("estimator", estimator, f"be one of {list(ESTIMATORS)}", "correct the word")
    if estimator == "antithetic" and samples % 2:
        remedy = "pass samples=2: a draw and its mirror image"
        raise refusal("samples", samples, 'be even for estimator="antithetic"', remedy)


def sampled_outputs(
    stage: Stage, arguments: tuple[Any, ...], estimator: str, samples: int, randomness: Randomness
) -> tuple[list[Any], Tensor]:
    """What the model answers, `samples` times, under the weights of that estimator; and KL(q ‖ p)."""
    if torch.compiler.is_compiling() and estimator == "plain":
        return [stage.model(*arguments) for _ in range(samples)], kl(stage.model)
    draws, divergence = _draws(stage.model, estimator, samples, randomness)
    return [stage.run(draw, *arguments) for draw in draws], divergence


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
    return {name: 2 * mean - draw[name] for name, mean in module.means()}
