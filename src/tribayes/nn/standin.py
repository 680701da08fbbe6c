"""Tensors that stand for random ones: how a network that knows nothing of it is run on laws instead of numbers.

A stand-in is put in a weight's place like any draw and looks like a tensor: it has a shape, a dtype and a
device. What the network computes with it is answered by a rule of that operation's name; an operation without a rule is
an error that names it, never an approximation that nobody asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from tribayes._errors import refusal
from tribayes.nn.convert import bayesian_modules
from tribayes.nn.preactivation import WeightNoise
from tribayes.nn.stage import random_names
from tribayes.posterior.family import Law
from tribayes.posterior.shards import whole

OperationRule = Callable[..., Any]

LAYERS = ("linear", "conv1d", "conv2d", "conv3d")  # where a random weight may be used

_LOOKS = {  # what may be asked of a tensor without computing with it
    *(getattr(Tensor, name).__get__ for name in ("shape", "ndim", "dtype", "device", "is_cuda", "requires_grad")),
    *(getattr(Tensor, name) for name in ("size", "dim", "numel", "is_floating_point", "__len__")),
}


class StandIn(Tensor):
    """A tensor that stands for a random one. Subclasses say what they know (`rules`) and whom to blame (`chosen`)."""

    rules: ClassVar[Mapping[str, OperationRule]] = {}  # torch's function, its functional twin and the method share one
    chosen: ClassVar[tuple[str, str]]  # the argument, and its value, by which the caller chose this
    remedy: ClassVar[str]

    @classmethod
    def like(cls, mean: Tensor) -> Self:
        """A stand-in of the shape, dtype and device of `mean`."""
        with torch._C.DisableTorchFunctionSubclass():
            return mean.detach().as_subclass(cls)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        kwargs = kwargs or {}
        if func in _LOOKS:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        rule = cls.rules.get(getattr(func, "__name__", ""))
        if rule is None:
            operation = torch.overrides.resolve_name(func) or getattr(func, "__name__", repr(func))
            raise cls.refused(operation, (*args, *kwargs.values()))
        return rule(*args, **kwargs)

    @classmethod
    def refused(cls, operation: str, operands: Any) -> ValueError:
        """The error for an operation without a rule: it names the operation, and the weight where there is one."""
        weight = next((one for one in tree_leaves(list(operands)) if isinstance(one, RandomWeight)), None)
        use = f"uses {operation}" if weight is None else f"uses the random weight {weight.full_name!r} in {operation}"
        return refusal(*cls.chosen, f"meet operations it knows, but the network {use}", cls.remedy)

    def __repr__(self) -> str:  # type: ignore[override]  # torch's takes an argument of its own making
        return f"{type(self).__name__} of shape {tuple(self.shape)}"


class RandomWeight(StandIn):
    """Stands for a random weight or bias: its law, by its full name in the model. It may be used once in a pass."""

    law: Law
    full_name: str
    used: bool

    @classmethod
    def of(cls, name: str, mean: Tensor, law: Law) -> Self:
        weight = cls.like(mean)
        weight.law, weight.full_name, weight.used = law, name, False
        return weight

    def noise(self) -> WeightNoise:
        """What a layer needs to know of a weight, asked once."""
        return WeightNoise.of(self.bias_law(), self.shape)

    def bias_law(self) -> Law:
        """What it needs to know of a bias, asked once: a second use would have to meet the same draw, and could not."""
        if self.used:
            requirement = f"meet each random weight once, but the network uses {self.full_name!r} again"
            raise refusal(*self.chosen, requirement, self.remedy)
        self.used = True
        return self.law


def stand_ins(model: torch.nn.Module, build: Callable[[str, Tensor, Law], RandomWeight]) -> list[dict[str, Tensor]]:
    """A stand-in for every random tensor of the model, to run it under like a draw."""
    draws: list[dict[str, Tensor]] = []
    for module, names in zip(bayesian_modules(model), random_names(model), strict=True):
        laws = module.laws()
        means = zip(names, module.means(), strict=True)
        draws.append({own: build(full, whole(mean), laws[own]) for full, (own, mean) in means})
    return draws
