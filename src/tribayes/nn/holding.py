"""One draw for a whole model, and holding it: also for models made of several Bayesian modules."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase

from torch import Tensor, nn

from tribayes._errors import refusal
from tribayes.nn.convert import bayesian_modules
from tribayes.nn.fused import fused_draw_from
from tribayes.nn.module import BayesianModule

_WRAPPED = "_orig_mod."  # what `torch.compile` puts into the path of a module

ModelDraw = list[dict[str, Tensor]]  # a draw for each Bayesian module, in the order of `model.modules()`


def seed_of(*path: int) -> int:
    """A seed for a place in a tree of seeds, such as (seed, sample, module): distinct places, unrelated seeds."""
    digest = hashlib.sha256("/".join(map(str, path)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def random_names(model: nn.Module) -> list[list[str]]:
    """For each Bayesian module, the full names of its random tensors: its own path, then the name within it.

    Compiling does not change them, though it does change the paths.
    """
    named = [(path, module) for path, module in model.named_modules() if isinstance(module, BayesianModule)]
    names = [[f"{path}.{name}" if path else name for name in module.random_names] for path, module in named]
    return [[name.replace(_WRAPPED, "") for name in group] for group in names]


def chosen_names(model: nn.Module, where: str | Sequence[str] | None) -> list[set[str]] | None:
    """For each Bayesian module, its own names of the tensors whose full name matches a pattern; None for all."""
    if where is None:
        return None
    patterns = [where] if isinstance(where, str) else list(where)
    if not patterns:
        raise refusal("where", where, "name at least one pattern", "leave it out to draw every random tensor")
    names = random_names(model)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for group in names for name in group):
            known = ", ".join(name for group in names for name in group[:4])
            raise refusal("where", pattern, "match a random tensor of the model", f"choose among {known} …")
    return [
        {
            own
            for own, name in zip(module.random_names, group, strict=True)
            if any(fnmatchcase(name, p) for p in patterns)
        }
        for module, group in zip(bayesian_modules(model), names, strict=True)
    ]


def sample_model(model: nn.Module, seed: int, sample: int, only: Sequence[set[str]] | None = None) -> ModelDraw:
    """Draw number `sample` of the stream `seed`: the same on every call, whatever was drawn before.

    `only` restricts it to some names of each module; the rest stays at its means.
    """
    modules = bayesian_modules(model)
    seeds = seeds_of(seed, sample, len(modules))
    return _chosen([module.sample_weights(generator=own) for module, own in zip(modules, seeds, strict=True)], only)


def seeds_of(seed: int, sample: int, modules: int) -> list[int]:
    """For each of so many Bayesian modules, the seed of its part of draw number `sample`."""
    return [seed_of(seed, sample, index) for index in range(modules)]


def sample_model_from(model: nn.Module, seeds: Sequence[Tensor], only: Sequence[set[str]] | None = None) -> ModelDraw:
    """As `sample_model`, by the fused sampler, with each module's seed in a tensor (1,) on the device."""
    return _chosen([fused_draw_from(*pair) for pair in zip(bayesian_modules(model), seeds, strict=True)], only)


def _chosen(draws: ModelDraw, only: Sequence[set[str]] | None) -> ModelDraw:
    if only is None:
        return draws
    return [{name: draw[name] for name in draw if name in names} for draw, names in zip(draws, only, strict=True)]


@contextmanager
def holding(model: nn.Module, draws: ModelDraw) -> Iterator[None]:
    """While this lasts, every Bayesian module in `model` uses the given weights instead of drawing its own."""
    modules = bayesian_modules(model)
    before = [module.held for module in modules]
    try:
        for module, draw in zip(modules, draws, strict=True):
            module.held = draw
        yield
    finally:
        for module, held in zip(modules, before, strict=True):
            module.held = held
