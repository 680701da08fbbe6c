"""How a network is called: which arguments the inputs of a batch stand for, and which part of a batch is the targets.

    x                                     network(x)
    (x1, x2), [x1, x2]                    network(x1, x2)
    {"ids": x1, "mask": x2}, any Mapping  network(ids=x1, mask=x2)
    a dataclass                           its fields by their names

Training and prediction alike come here, so a network that can be trained can be asked.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tribayes._arrays import is_array, tensor_of
from tribayes._errors import refusal, wrong_type

TARGETS = ("labels", "label", "targets")  # under one of these names a batch that is a Mapping has its targets


class Arguments(NamedTuple):
    """What a network is called with. A tuple of plain containers, so that a recording finds the tensors within."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True)
class Whole:
    """Inputs that belong together and are never cut into batches: a graph with its edges, a set, an object of its own.

    `tribayes.predict` then asks a network about all of it in one pass, and there are as many examples as its answer
    has rows. A loader may yield several of them.

    Example:
        >>> class MeanOfNeighbours(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.layer = nn.Linear(4, 3)
        ...     def forward(self, x, edges):
        ...         return self.layer(torch.zeros_like(x).index_add(0, edges[1], x[edges[0]]))
        >>> graph = Whole((torch.randn(5, 4), torch.randint(5, (2, 8))))
        >>> tribayes.predict(tribayes.to_bayesian(MeanOfNeighbours()), graph, progress=False).mean.shape
        torch.Size([5, 3])
    """

    inputs: Any


@dataclass(frozen=True)
class Home:
    """Where a network computes, and in what: tensors are moved there, arrays of real numbers become its dtype."""

    device: torch.device
    dtype: torch.dtype

    @staticmethod
    def of(network: nn.Module) -> Home:
        parameters = list(network.parameters())
        real = (parameter.dtype for parameter in parameters if parameter.is_floating_point())
        return Home(parameters[0].device, next(real, torch.get_default_dtype()))

    def arguments(self, inputs: Any) -> Arguments:
        """The arguments that inputs stand for, every tensor on the device."""
        args, kwargs = arguments_of(inputs)
        placed: dict[str, Any] = self.place("inputs", kwargs)
        return Arguments(self.place("inputs", args), placed)

    def place(self, argument: str, value: Any) -> Any:
        """A tensor, an array, or a tree of them, on the device; what is neither stays as it is."""
        if isinstance(value, Tensor):
            if value.is_meta and self.device.type != "meta":
                raise refusal(argument, "tensor on meta", "hold numbers", "make it on a device that has memory")
            return value if value.device == self.device else value.to(self.device, non_blocking=True)
        if is_array(value):
            return self.place(argument, tensor_of(argument, value, self.dtype))
        if callable(getattr(value, "to", None)) and not isinstance(value, nn.Module | type):
            return value.to(self.device)  # a packed sequence, a tokenizer's encoding, a graph of another library
        if isinstance(value, tuple | list):
            items = [self.place(argument, item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if isinstance(value, MutableMapping) or is_record(value):
            own = copy(value)
            for name, part in named_parts(value).items():
                placed = self.place(argument, part)
                if isinstance(own, MutableMapping):
                    own[name] = placed
                else:
                    object.__setattr__(own, name, placed)  # also where it is frozen
            return own
        return value


def arguments_of(inputs: Any) -> Arguments:
    """The arguments that inputs stand for, as they are."""
    if isinstance(inputs, Arguments):
        return inputs
    if isinstance(inputs, Whole):
        return arguments_of(inputs.inputs)
    if isinstance(inputs, Mapping) or is_record(inputs):
        named = named_parts(inputs)
        if not all(isinstance(name, str) for name in named):
            remedy = "use the names of the arguments of the network's forward"
            raise wrong_type("inputs", list(named), "have strings for keys", remedy)
        return Arguments((), named)
    if isinstance(inputs, tuple | list) and not hasattr(inputs, "to"):  # a PackedSequence is a tuple, too
        return Arguments(tuple(inputs), {})
    return Arguments((inputs,), {})


def is_record(value: object) -> bool:
    """Whether this is an instance of a dataclass."""
    return is_dataclass(value) and not isinstance(value, type)


def named_parts(value: Any) -> dict[str, Any]:
    """A Mapping, or the fields of a dataclass, as a dict."""
    return dict(value) if isinstance(value, Mapping) else {one.name: getattr(value, one.name) for one in fields(value)}


def inputs_and_targets(batch: Any, argument: str = "batches") -> tuple[Any, Any]:
    """A batch taken apart: (inputs, targets), or a Mapping or dataclass with its targets under one of three names.

    >>> inputs_and_targets({"x": 1, "mask": 2, "labels": 3})
    ({'x': 1, 'mask': 2}, 3)
    """
    if isinstance(batch, Mapping) or is_record(batch):
        named = named_parts(batch)
        found = [name for name in TARGETS if name in named]
        if len(found) != 1:
            requirement = f"have its targets under exactly one of the names {', '.join(TARGETS)}"
            raise refusal(argument, sorted(map(str, named)), requirement, "rename the key, or yield (inputs, targets)")
        return without_targets(named), named[found[0]]
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise wrong_type(argument, kind_of(batch), "yield (inputs, targets), or a Mapping with labels", _PAIR)
    inputs, targets = batch
    return inputs, targets


_PAIR = "for a network of several arguments yield ((x1, x2), targets)"


def without_targets(named: Mapping[str, Any]) -> dict[str, Any]:
    """A Mapping without what goes by a name of targets."""
    return {name: value for name, value in named.items() if name not in TARGETS}


def kind_of(value: Any) -> str:
    """What something is made of, for an error: the types of its parts, and the shapes of tensors."""
    if isinstance(value, Mapping) or is_record(value):
        parts = [f"{name}: {kind_of(part)}" for name, part in named_parts(value).items()]
        return f"{type(value).__name__} of {', '.join(parts) or 'nothing'}"
    if isinstance(value, tuple | list):
        return f"{type(value).__name__} of {', '.join(map(kind_of, value[:4])) or 'nothing'}"
    return f"tensor {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
