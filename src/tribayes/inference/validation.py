"""Held-out examples while a network learns: their NLL after each epoch, and the best weights by it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

from tribayes._arrays import is_array, tensor_of
from tribayes._errors import check_whole, refusal, wrong_type
from tribayes.inference.objective import Objective
from tribayes.inference.snapshot import Snapshot
from tribayes.nn.answer import counted
from tribayes.nn.calling import Home, Whole, arguments_of, inputs_and_targets
from tribayes.nn.module import BayesianModule
from tribayes.nn.stage import Stage, sample_model
from tribayes.posterior.streams import Stream

DRAWS = 8  # of the weights, the same in every epoch: what changes between epochs is the network

_CHUNK = 1024  # examples of a pair (x, y) at once

HeldOut = tuple[Any, Any] | Iterable[Any]


class Validation:
    """The mean of −ln (1/S) Σ_s p(y | x, w_s) over held-out examples, in evaluation mode, under S = 8 draws.

    Args:
        data: a pair (inputs, targets), or a DataLoader or list of batches as `fit` takes them, which is gone through
            every time.
    """

    def __init__(self, data: HeldOut, model: nn.Module, objective: Objective) -> None:
        check_batches("validation", data)
        self._data, self._model, self._objective = data, model, objective
        self._home = Home.of(model)
        self._random = any(isinstance(module, BayesianModule) for module in model.modules())

    @torch.no_grad()
    def nll(self) -> float:
        """What they say now. The model's mode, buffers and torch's random numbers are left alone."""
        stage = Stage(self._model, evaluation=True)
        total, examples = 0.0, 0
        for batch in _batches(self._data, self._home.dtype):
            inputs, targets = inputs_and_targets(batch, "validation")
            arguments, targets = self._home.arguments(inputs), self._home.place("targets", targets)
            each = []
            for number in range(DRAWS if self._random else 1):
                answer = stage.run(self._draw(number), *arguments.args, **arguments.kwargs)
                outputs = counted(answer, self._objective.output)
                each.append(self._objective.likelihood.each_nll(outputs, targets).double())
            total -= float((torch.logsumexp(-torch.stack(each), 0) - math.log(len(each))).sum())
            examples += len(each[0])
        if not examples:
            raise refusal("validation", self._data, "have examples every time", "pass (x, y), a DataLoader or a list")
        if math.isnan(total):  # beside which no epoch is better or worse
            raise refusal("validation", total, "have an NLL that is a number", "look for NaN in its examples")
        return total / examples

    def _draw(self, number: int) -> list[dict[str, Tensor]]:
        return sample_model(self._model, Stream(("validation", number))) if self._random else []


def check_batches(argument: str, batches: object) -> None:
    """Refuse what cannot be gone through; a DataLoader is not begun, for that may start processes."""
    if not (hasattr(batches, "__iter__") or hasattr(batches, "__getitem__")):
        raise wrong_type(argument, batches, "be a DataLoader or a list of batches", "pass e.g. [(inputs, targets)]")


def _batches(data: HeldOut, dtype: torch.dtype) -> Iterator[Any]:
    """Of a pair in chunks, where every tensor in it has a row for each example; of anything else as they come."""
    if not (isinstance(data, tuple) and len(data) == 2 and not isinstance(data[1], tuple | list)):
        yield from data
        return
    pair = (arguments_of(data[0]), data[1])
    pair = tree_map(lambda leaf: tensor_of("validation", leaf, dtype) if is_array(leaf) else leaf, pair)
    sizes = {leaf.shape[:1] for leaf in tree_leaves(pair) if isinstance(leaf, Tensor)}
    if isinstance(data[0], Whole) or len(sizes) > 1:  # a graph and its edges
        yield pair
        return
    for start in range(0, len(pair[1]), _CHUNK):
        yield tree_map_only(Tensor, itemgetter(slice(start, start + _CHUNK)), pair)


class Patience:
    """Stops after so many epochs without a better NLL, and keeps the best state: model and objective."""

    def __init__(self, epochs: int, modules: list[nn.Module]) -> None:
        self._epochs = check_whole("patience", epochs, "pass the number of epochs to wait for a better one", least=1)
        self._kept = Snapshot(modules)
        self._best, self._since = math.inf, 0

    def is_over(self, nll: float) -> bool:
        """After an epoch: whether to stop."""
        if nll < self._best:
            self._best, self._since = nll, 0
            self._kept.take()
        else:
            self._since += 1
        return self._since >= self._epochs

    def restore(self) -> None:
        """Put the best state in place, where there is one."""
        if self._best < math.inf:
            self._kept.restore()
