"""Randomness of one model that several processes train: what they share, and what each has for itself.

Under DistributedDataParallel every process has all weights and its own share of a batch, and gradients are averaged.
Each may then draw weights of its own: the average is over as many draws, and the gradient is less noisy. The coins of
the guards must be the same in all, or the processes' parameters would drift apart.
"""

from __future__ import annotations

import torch
import torch.distributed
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tribayes._errors import refusal
from tribayes.nn.sharded import holds_shards
from tribayes.posterior.streams import Randomness, Stream, checked, generator_of

_SEEDS = 2**62

Pair = tuple[torch.Generator | None, torch.Generator | None]


def generators_for(
    model: nn.Module, randomness: Randomness, same_draw: bool, by_example: bool, device: torch.device
) -> Pair:
    """A generator for draws and one for the coins of the guards; the same for a model that one process trains.

    A sharded model has one draw whatever is asked for, as its processes see to themselves (posterior/shards.py), unless
    noise is drawn `by_example`: then processes have examples, and noise, of their own.
    """
    source = checked(randomness)
    if not isinstance(model, DistributedDataParallel):
        if by_example and isinstance(source, Stream) and holds_shards(model):
            source = source.child("rank", torch.distributed.get_rank())
        generator = generator_of(source, device)
        return generator, generator
    if isinstance(source, torch.Generator) and same_draw:
        return source, source  # stands the same in all processes, and coins are thrown for the same parameters
    stream = source if isinstance(source, Stream) else Stream((_agreed_seed(model, source, device),))
    coins = stream.child("guards").generator(device)
    if isinstance(source, torch.Generator):
        return source, coins
    rank = torch.distributed.get_rank(model.process_group)
    own = stream if same_draw and not by_example else stream.child("rank", rank)
    return own.generator(device), coins


def check_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Refuse what torch cannot do with parameters that are in parts."""
    fused = isinstance(optimizer, torch.optim.SGD) and any(group.get("fused") for group in optimizer.param_groups)
    if fused and holds_shards(model):
        requirement = "not be fused for a sharded model: torch has no fused SGD for DTensors"
        raise refusal("optimizer", "SGD(fused=True)", requirement, "leave fused out, or use AdamW")


def check_passes(model: nn.Module) -> None:
    """Refuse a parallel model that counts on the same modules in every pass, where each pass has a twin of its own."""
    if isinstance(model, DistributedDataParallel) and model.static_graph:
        requirement = "be False where the objective is called by itself, which runs other copies of modules each time"
        raise refusal("static_graph", True, requirement, "leave it out, or take steps by tb.TrainingStep")


def is_parallel(model: nn.Module) -> bool:
    """Whether several processes train this model, which no CUDA graph is made for."""
    return isinstance(model, DistributedDataParallel) or holds_shards(model)


class CommonNoise:
    """What a likelihood learns, alike in all processes: no wrapper of the model knows it, so nothing else averages it.

    All begin with the first one's values. `average_` makes the gradients their mean over processes, as the model's are.
    """

    def __init__(self, model: nn.Module, objective: nn.Module) -> None:
        own = set(model.parameters())
        self._parameters = [p for p in objective.parameters() if p not in own] if is_parallel(model) else []
        self._group = model.process_group if isinstance(model, DistributedDataParallel) else None
        for parameter in self._parameters:
            torch.distributed.broadcast(parameter.detach(), group=self._group, group_src=0)

    def average_(self) -> None:
        """To be called by all processes, after the backward pass."""
        for gradient in (parameter.grad for parameter in self._parameters):
            if gradient is not None:
                torch.distributed.all_reduce(gradient, group=self._group)
                gradient /= torch.distributed.get_world_size(self._group)


def _agreed_seed(model: DistributedDataParallel, source: torch.Generator | None, device: torch.device) -> int:
    """A number by the first process's generator, in all of them."""
    number = torch.randint(_SEEDS, (1,), device=device, generator=source)
    torch.distributed.broadcast(number, group=model.process_group, group_src=0)
    return int(number)
