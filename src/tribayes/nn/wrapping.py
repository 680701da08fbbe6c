"""What of a wrapped network shows on its wrapper: the signature of its forward, and attributes that are no weights."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

_SWITCHES = ("checkpointing_enable", "checkpointing_disable")  # of transformers, activation_… and gradient_…


class NetworksOwn:
    """A wrapper's `forward`, shown with the signature of the network's own: libraries look there for argument names.

    Transformers' Trainer, for one, drops every column of the data that no argument is named after. It also looks for
    labels, but in the class, which knows no network: without any there, it evaluates no loss.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        *others, rest = inspect.signature(function).parameters.values()  # the last takes named arguments of any kind
        labels = inspect.Parameter("labels", inspect.Parameter.KEYWORD_ONLY, default=None)
        vars(function)["__signature__"] = inspect.Signature([*others, labels, rest])
        self.__doc__ = function.__doc__

    def __get__(self, wrapper: Any, owner: type | None = None) -> Any:
        if wrapper is None:
            return self._function
        if torch.compiler.is_compiling():  # which would look into the class below
            return partial(self._function, wrapper)
        return _Bound(self._function, wrapper)


class _Bound:
    """A bound method with a signature that is looked up when it is asked for."""

    def __init__(self, function: Callable[..., Any], wrapper: Any) -> None:
        self.__func__, self.__self__ = function, wrapper
        self.__doc__, self.__code__ = function.__doc__, function.__code__  # torch.export asks where it is

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__func__(self.__self__, *args, **kwargs)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.__self__.module.forward)


def shown(network: nn.Module, name: str) -> Any:
    """An attribute of a wrapped network, unless computing with it would mean the means where a draw may be meant."""
    value = getattr(network, name)
    if name.endswith(_SWITCHES):  # they set how draws, too, are computed, and compute nothing themselves
        return value
    if isinstance(value, nn.Module | nn.Parameter) or inspect.isroutine(value):
        kind = "a method" if inspect.isroutine(value) else "a part"
        raise AttributeError(
            f"{name!r} is {kind} of the wrapped {type(network).__name__}, which knows nothing of draws; for one draw "
            f"write `with model.using(model.sample_weights()) as network: network.{name}`, for the means "
            f"`model.module.{name}`."
        )
    return value
