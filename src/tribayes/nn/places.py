"""Random parameters by their names: where they are in a network, and draws of them, which are looked at here."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tribayes._errors import refusal, wrong_type

Draw = Mapping[str, Tensor]

_REMEDY = "pass what sample_weights() returns"


def parameter_of(module: nn.Module, name: str) -> nn.Parameter:
    """`module.get_parameter(name)` in a fifth of its time, which counts where a network is small."""
    *path, attribute = name.split(".")
    owner: Any = module
    for part in path:
        owner = owner._modules.get(part)
        if owner is None:
            return module.get_parameter(name)  # its error says what is missing
    found = owner._parameters.get(attribute)
    return module.get_parameter(name) if found is None else found


def places_of(module: nn.Module, names: Sequence[str]) -> tuple[str, ...]:
    """One name for each place that holds the parameter: tied weights have several, a shared submodule one.

    functional_call ties weights by itself, but fills a submodule that goes by two names twice and then
    restores the draw instead of the parameter (https://github.com/pytorch/pytorch/issues/164759).
    """
    places: dict[tuple[nn.Module, str], str] = {}
    for name in names:
        owner, _, attribute = name.rpartition(".")
        places.setdefault((module.get_submodule(owner), attribute), name)
    return tuple(places.values())


def fingerprint(names: tuple[str, ...], means: list[nn.Parameter]) -> Tensor:
    """A number that differs between layouts, so that a checkpoint of other tensors is not loaded by accident."""
    text = ";".join(f"{name}:{tuple(mean.shape)}" for name, mean in zip(names, means, strict=True))
    return torch.tensor(int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big"), device="cpu")


def check_weights(weights: Draw, names: Sequence[str], module: nn.Module) -> None:
    """Refuse what is no draw of some of these parameters of a module, each in its shape."""
    if not isinstance(weights, Mapping):
        raise wrong_type("weights", weights, "be a dict name -> tensor", _REMEDY)
    for name, value in weights.items():
        if name not in names:
            raise refusal("weights", name, "name a random parameter of the network", f"choose among {some_of(names)}")
        if not isinstance(value, Tensor):
            raise wrong_type("weights", value, f"have a tensor for {name!r}", _REMEDY)
        shape = parameter_of(module, name).shape
        if value.shape != shape:
            remedy = "for a stack of draws use torch.func.vmap(model.apply_weights, in_dims=(0, None)) or a loop"
            raise refusal("weights", tuple(value.shape), f"have the shape {tuple(shape)} for {name!r}", remedy)


def some_of(names: Sequence[str], shown: int = 8) -> str:
    """The first of them, and how many there are.

    >>> some_of([f"{layer}.weight" for layer in range(12)])
    '0.weight, 1.weight, 2.weight, 3.weight, 4.weight, 5.weight, 6.weight, 7.weight, … (12 in all)'
    """
    return ", ".join(names[:shown]) + (f", … ({len(names)} in all)" if len(names) > shown else "")


def stack_of(draw: Draw, means: Mapping[str, Tensor]) -> tuple[int, ...]:
    """() for one draw of all these parameters, (n,) for n of them stacked; refuses what is neither."""
    if not isinstance(draw, Mapping) or set(draw) != set(means):
        found = sorted(draw) if isinstance(draw, Mapping) else draw
        raise refusal("draw", found, f"have all of {some_of(tuple(means))}", _REMEDY)
    for name, value in draw.items():
        if not isinstance(value, Tensor):
            raise wrong_type("draw", value, f"have a tensor for {name!r}", _REMEDY)
    stacks = {tuple(draw[name].shape[: max(draw[name].ndim - mean.ndim, 0)]) for name, mean in means.items()}
    stack = stacks.pop()
    for name, mean in means.items():
        if stacks or draw[name].shape != (*stack, *mean.shape):
            requirement = f"have the shape {tuple(mean.shape)} for {name!r}, or n of them stacked, for all alike"
            raise refusal("draw", tuple(draw[name].shape), requirement, _REMEDY)
    return stack
