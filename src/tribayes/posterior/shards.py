"""Tensors of which every process holds a part: DTensors, as `torch.distributed.fsdp.fully_shard` makes them.

A parameter is cut by its first axis, so a part is a piece of the flattened tensor. Parts are gathered to whole tensors
where a network needs these; on the way back the gradients of all processes are averaged, since each has seen its own
share of a batch, and every process gets its part of the average.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed
from torch import Tensor

from tribayes._errors import refusal
from tribayes.posterior.streams import Randomness, Stream, checked, generator_of

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

_MODULE = "torch.distributed.tensor"  # takes a while to import: where it is not, there are no such tensors


def shards_are_possible() -> bool:
    """Whether there may be any DTensor: asked in every step, and told in no time. One process alone has none."""
    grouped = torch.distributed.is_available() and torch.distributed.is_initialized()
    return grouped and _MODULE in sys.modules and not torch.compiler.is_compiling()


def is_sharded(tensor: Tensor) -> bool:
    """Whether this is a DTensor."""
    return shards_are_possible() and isinstance(tensor, sys.modules[_MODULE].DTensor)


def any_sharded(tensors: Iterable[Tensor]) -> bool:
    """Whether one of these is: of hundreds, at the price of asking about one where none can be."""
    if not shards_are_possible():
        return False
    kind = sys.modules[_MODULE].DTensor
    return any(isinstance(tensor, kind) for tensor in tensors)


def local(tensor: Tensor) -> Tensor:
    """This process's own part, in the same memory; an ordinary tensor as it is."""
    return cast("DTensor", tensor).to_local() if is_sharded(tensor) else tensor


def bounds(tensor: Tensor) -> tuple[int, int]:
    """Where this process's part begins and ends in the flattened tensor."""
    place, shards = _place(tensor)
    rows = -(-len(tensor) // shards)  # of each part but the last, as torch.chunk cuts
    width = tensor.numel() // len(tensor)
    begin, end = (min(rows * index, len(tensor)) * width for index in (place, place + 1))
    return begin, end


def whole(tensor: Tensor) -> Tensor:
    """The tensor gathered from all processes, whose gradients are averaged; an ordinary tensor as it is."""
    return gathered(local(tensor), tensor) if is_sharded(tensor) else tensor


def gathered(part: Tensor, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """The whole of which every process has a part, cut as `like` is; gradients are averaged over processes."""
    mesh = cast("DTensor", like).device_mesh
    return _apply(part, like, dtype or part.dtype, 1 / mesh.size())


def summed(tensor: Tensor) -> Tensor:
    """As `whole`, where the parts of the processes contribute to the gradient, and not their shares of a batch."""
    _, shards = _place(tensor)
    return _apply(local(tensor), tensor, tensor.dtype, shards / cast("DTensor", tensor).device_mesh.size())


def total(value: Tensor, like: Tensor) -> Tensor:
    """The sum of a value over the parts of `like`; the gradient of each is that of the sum."""
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

    given = cast("DTensor", like)
    placements = [Partial() if isinstance(one, Shard) else Replicate() for one in given.placements]
    return DTensor.from_local(value, given.device_mesh, placements, run_check=False).full_tensor()


def common_generator(randomness: Randomness, like: Tensor) -> torch.Generator:
    """One that draws the same numbers in all processes: of a seed or stream, else as the first process's stands.

    That one goes on in the first process; the others' own are left alone.
    """
    source, device = checked(randomness), local(like).device
    if isinstance(source, Stream):
        return source.generator(device)
    generator = generator_of(source, device) or _global_generator(device)
    state = generator.get_state()
    mesh = cast("DTensor", like).device_mesh
    sent = state.to(device)
    for axis in range(mesh.ndim):  # along each axis in turn, so that all have what the very first had
        torch.distributed.broadcast(sent, group=mesh.get_group(axis), group_src=0)
    if not any(mesh.get_coordinate() or ()):
        return generator
    return torch.Generator(device).set_state(sent.to(state.device))


def check_all_sharded(tensors: list[Tensor] | tuple[Tensor, ...]) -> None:
    """Refuse a network of which only some random tensors are in parts."""
    ordinary = [tensor for tensor in tensors if not is_sharded(tensor)]
    if ordinary:
        requirement = f"be sharded as a whole, but a tensor of shape {tuple(ordinary[0].shape)} is not"
        remedy = "call fully_shard(model) last, after its parts; then TrainingStep, ELBO or predict instead of model(x)"
        raise refusal("model", "sharded", requirement, remedy)


def _global_generator(device: torch.device) -> torch.Generator:
    if device.type == "cpu":
        return torch.default_generator
    torch.cuda.init()
    return torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]


def _place(tensor: Tensor) -> tuple[int, int]:
    """The number of this process's part, and of how many."""
    from torch.distributed.tensor import Replicate, Shard

    given = cast("DTensor", tensor)
    cut = [axis for axis, one in enumerate(given.placements) if one == Shard(0)]
    if len(cut) != 1 or not all(one in (Shard(0), Replicate()) for one in given.placements):
        requirement = "be cut by its first axis along one axis of the device mesh"
        raise refusal("placements", given.placements, requirement, "use fully_shard without shard_placement_fn")
    return given.device_mesh.get_local_rank(cut[0]), given.device_mesh.size(cut[0])


def _apply(part: Tensor, like: Tensor, dtype: torch.dtype, factor: float) -> Tensor:
    _place(like)  # refuses what is cut otherwise
    return cast(Tensor, _Gather.apply(part, like.detach(), dtype, factor))


class _Gather(torch.autograd.Function):
    """Parts to the whole, in `dtype`; backwards the processes' gradients are added up, in the parts' own dtype."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, like: DTensor, dtype: torch.dtype, factor: float) -> Tensor:
        from torch.distributed.tensor import DTensor

        ctx.mesh, ctx.placements, ctx.dtype, ctx.factor = like.device_mesh, like.placements, part.dtype, factor
        own, stride = part.detach().to(dtype), like.stride()
        parts = DTensor.from_local(own, ctx.mesh, ctx.placements, run_check=False, shape=like.shape, stride=stride)
        joined = parts.full_tensor()
        return joined.clone() if joined.data_ptr() == part.data_ptr() else joined  # a single process: no memory shared

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        from torch.distributed.tensor import DTensor, Partial

        own = grads[0].to(ctx.dtype).contiguous()
        everywhere = DTensor.from_local(own, ctx.mesh, [Partial()] * ctx.mesh.ndim, run_check=False)
        return everywhere.redistribute(placements=ctx.placements).to_local() * ctx.factor, None, None, None
