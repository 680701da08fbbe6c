"""Several sampled networks in one pass: their weights stacked, the network mapped over the stack.

A linear layer then is one batched matrix product and a convolution one grouped convolution. Whether that is faster
than a loop depends on network, batch and device, so it can be measured on the spot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import torch
from torch import Tensor, nn

from tribayes._errors import refusal, wrong_type
from tribayes.nn.holding import ModelDraw, holding
from tribayes.prediction.inputs import Batch

AtOnce = int | str
MEASURE = "measure"

_CANDIDATES = (1, 4, 16)  # networks at once
_PASSES = 3  # each is timed so often, and the fastest pass counts


class CannotMap(ValueError):
    """Torch has no rule to run this network under several draws at once."""


def check_at_once(at_once: AtOnce) -> None:
    """Refuse what is neither a number of networks nor "measure"."""
    if at_once == MEASURE:
        return
    if isinstance(at_once, bool) or not isinstance(at_once, int):
        raise wrong_type("at_once", at_once, f'be a number of networks or "{MEASURE}"', "pass e.g. at_once=8")
    if at_once < 1:
        raise refusal("at_once", at_once, "be at least 1", "1 runs one network after the other")


def stacked(draws: Sequence[ModelDraw]) -> ModelDraw:
    """Draws of one model as one, each tensor with a leading axis."""
    return [
        {name: torch.stack([draw[number][name] for draw in draws]) for name in first}
        for number, first in enumerate(draws[0])
    ]


def respond_together(model: nn.Module, draws: ModelDraw, batch: Batch, respond: Callable[[Batch], Tensor]) -> Tensor:
    """(S, n, C): the responses of S networks, whose stacked weights are given, to one batch."""

    def one(draw: ModelDraw, *inputs: Tensor) -> Tensor:
        with holding(model, draw):
            return respond(inputs)

    mapped = torch.func.vmap(one, in_dims=(0, *(None for _ in batch)))
    try:
        answers: Tensor = mapped(draws, *batch)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:  # vmap's own, or the network's: then it comes again without vmap, and is raised here
        one([{name: value[0] for name, value in draw.items()} for draw in draws], *batch)
        count = len(next(iter(draws[0].values())))
        raise CannotMap(
            f"`at_once` (={count}) must be 1 for this network, over which torch cannot map "
            f"({str(error).splitlines()[0]}); leave it at 1."
        ) from error
    return answers


def fastest(run: Callable[[int], Tensor], count: int) -> int:
    """How many of `count` networks to run at once: the number that takes least time a network.

    `run(n)` runs n of them. Where torch cannot map over the network, that is one after the other.
    """
    seconds = {}
    for candidate in (number for number in _CANDIDATES if number <= count):
        try:
            seconds[candidate] = min(_timed(run, candidate) for _ in range(_PASSES + 1)) / candidate
        except CannotMap:
            break
    return min(seconds, key=seconds.__getitem__)


def _timed(run: Callable[[int], Tensor], count: int) -> float:
    start = perf_counter()
    answers = run(count)
    if answers.is_cuda:
        torch.cuda.synchronize(answers.device)
    return perf_counter() - start
