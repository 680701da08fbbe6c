"""The twin of a network of which every process holds a part (`torch.distributed.fsdp.fully_shard`).

FSDP's hooks gather the parameters of the network itself, layer by layer, as it runs. A twin has draws in their places,
which are whole already; so its modules go without these hooks, and what is not drawn is gathered when the twin is made.
The price is the memory of one whole draw while a step lasts; means, gradients and the optimizer's state stay in parts.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from torch import nn

from tribayes._errors import refusal
from tribayes.nn.twin import Twin
from tribayes.posterior.shards import any_sharded, is_sharded, shards_are_possible, whole

_FSDP = "torch.distributed.fsdp"


def holds_shards(network: nn.Module) -> bool:
    """Whether a parameter of the network is in parts."""
    return shards_are_possible() and any_sharded(network.parameters())


def check_unsharded(model: nn.Module) -> None:
    """Refuse a model of which this process holds a part, for what needs all of it."""
    if holds_shards(model):
        remedy = (
            "pass one like it, converted but not sharded, that has loaded get_model_state_dict(model, "
            "options=StateDictOptions(full_state_dict=True)) of torch.distributed.checkpoint.state_dict"
        )
        raise refusal("model", "sharded", "be whole in this process", remedy)


def whole_twin(network: nn.Module, replaced: Mapping[int, Any], left: set[int], own_buffers: bool = False) -> Twin:
    """A twin with what is given, and other parameters gathered, but those whose ids are `left`. By all processes."""
    others = [p for p in network.parameters() if id(p) not in replaced and id(p) not in left and is_sharded(p)]
    gathered = {id(parameter): whole(parameter) for parameter in others}
    return Twin(network, {**replaced, **gathered}, own_buffers, without_hooks_of=_FSDP)


def reshard_(network: nn.Module) -> None:
    """Let FSDP forget parameters that a call of the network itself has left gathered: they are not what is learned."""
    fsdp = sys.modules.get(_FSDP)  # takes a while to import: where it is not, nothing is in parts
    if fsdp is not None:
        for module in network.modules():
            if isinstance(module, fsdp.FSDPModule):
                module.reshard()
