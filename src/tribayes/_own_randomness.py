"""Torch's global generators lent to work that draws from them by itself: an initialisation, dropout.

The library's own draws never come from there. While they are lent, whoever draws from them in another thread meets the
work's numbers instead of its own; so they are lent to nothing that does not draw, and to one work at a time.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

_ONE_AT_A_TIME = RLock()


@contextmanager
def lent(generators: Sequence[torch.Generator]) -> Iterator[None]:
    """While this lasts, torch's global generators go on where these are, one of the CPU and any of GPUs after it.

    Afterwards these have gone on, and torch's are as they were.

    >>> own = torch.Generator().manual_seed(0)
    >>> with lent([own]):
    ...     one = torch.rand(2)
    >>> bool((one == torch.rand(2, generator=torch.Generator().manual_seed(0))).all())
    True
    """
    host, *gpus = generators
    with _ONE_AT_A_TIME, torch.random.fork_rng(devices=[gpu.device for gpu in gpus]):
        torch.set_rng_state(host.get_state())
        for gpu in gpus:
            torch.cuda.set_rng_state(gpu.get_state(), gpu.device)
        yield
        host.set_state(torch.get_rng_state())
        for gpu in gpus:
            gpu.set_state(torch.cuda.get_rng_state(gpu.device))


class Watch(TorchDispatchMode):
    """Notes whether an operation within draws from torch's global generators.

    >>> with Watch() as watch:
    ...     _ = torch.rand(2, generator=torch.Generator())
    >>> watch.drew
    False
    """

    def __init__(self) -> None:
        super().__init__()
        self.drew = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.drew |= not any(isinstance(given, torch.Generator) for given in (*args, *kwargs.values()))
        return func(*args, **kwargs)


@torch.no_grad()
def draws_by_itself(network: nn.Module, inputs: Tensor) -> bool:
    """Whether a network in training draws from torch's global generators; asked by one pass of a copy.

    >>> draws_by_itself(nn.Dropout(0.5), torch.ones(2, 3)), draws_by_itself(nn.Linear(3, 1), torch.ones(2, 3))
    (True, False)
    """
    place = next(network.parameters(), inputs).device
    own = [torch.Generator(each) for each in dict.fromkeys([torch.device("cpu"), place])]
    with lent(own), Watch() as watch:
        copy.deepcopy(network).train()(inputs.to(place))
    return watch.drew


class OwnRandomness:
    """Around each step of a training: torch's global generators are lent to it if its first step has drawn there."""

    def __init__(self, generators: Sequence[torch.Generator]) -> None:
        self._generators = generators
        self._draws = None if generators else False  # not known before the first step

    @contextmanager
    def __call__(self) -> Iterator[None]:
        if self._draws is False:
            yield
        elif self._draws:
            with lent(self._generators):
                yield
        else:
            with lent(self._generators), Watch() as watch:
                yield
            self._draws = watch.drew
