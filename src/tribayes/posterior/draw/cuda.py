"""The draw on a GPU as one operation of torch: known to autograd, torch.compile, torch.export, vmap and CUDA graphs.

Its backward pass makes the noise again instead of keeping it: normals come from a generator that counts, so a draw is a
function of its seed. The kernels are in kernels.py, their launches in launch.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from tribayes._errors import wrong_type
from tribayes.posterior.draw.layout import BLOCK, channels_last, rooms
from tribayes.posterior.draw.plain import Count, Means, Priors, WeightsAndKL
from tribayes.posterior.parametrisation import Rule
from tribayes.posterior.prior import TensorPrior
from tribayes.posterior.streams import Randomness, Seeds, Stream, checked

_SEEDS = 2**62
_STRIDED = 2**31 - BLOCK  # entries of a tensor in channels_last memory, whose places the kernels find in 32 bits


def can_draw(means: Means, delta: Tensor) -> bool:
    """Whether the kernels can read these: float32 on one device, row-major or (not too large) channels_last."""
    return delta.dtype == torch.float32 and all(
        mean.dtype == torch.float32
        and mean.device == delta.device
        and (mean.is_contiguous() or (channels_last(mean) and mean.numel() <= _STRIDED))
        for mean in means
    )


def draw(
    means: Means, delta: Tensor, gamma: Tensor, randomness: Seeds, count: Count = None, priors: Priors = None
) -> WeightsAndKL:
    """As `tribayes.posterior.draw.draw`. The draws lie in memory as their means do; under autocast in its dtype."""
    seeds = seeds_of(randomness, count or 1, delta.device)
    fixed = [prior for prior in priors or () if isinstance(prior, TensorPrior)]  # all of them, or none
    locs, scales = [prior.loc for prior in fixed], [prior.scale for prior in fixed]
    relative = priors is not None and not fixed
    device = delta.device.type  # under autocast nothing is left to cast
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else torch.float32
    drawn, divergence, _ = _draw(list(means), delta, gamma, locs, scales, seeds, relative, dtype)
    weights = unflatten(drawn.squeeze(0) if count is None else drawn, means, dtype)
    return weights, None if priors is None else divergence


def seeds_of(randomness: Seeds, count: int, device: torch.device) -> Tensor:
    """(count,): one per draw, of a generator, or following from a stream without one and without a wait."""
    if isinstance(randomness, Tensor):
        if randomness.dtype != torch.int64 or randomness.shape != (count,) or randomness.device != device:
            requirement = f"be a tensor of {count} int64 on {device}, a seed for each draw"
            raise wrong_type("generator", randomness, requirement, "pass a torch.Generator or an integer seed")
        return randomness
    source = checked(randomness)
    if isinstance(source, Stream):
        numbers = [seed_number(source), *(seed_number(source.child("draw", i)) for i in range(1, count))]
        return torch.tensor(numbers).to(device, non_blocking=True)
    return torch.randint(_SEEDS, (count,), device=device, generator=source)


def seed_number(stream: Stream) -> int:
    """What the kernels take for the draw of a stream."""
    return stream.number % _SEEDS


def guard_(means: Means, delta: Tensor, gamma: Tensor | None, rule: Rule, randomness: Randomness = None) -> None:
    """All guards (parametrisation.py), in place, in one launch."""
    seed = seeds_of(randomness, 1, delta.device) if rule.coin_for_sign else delta.new_empty(1, dtype=torch.int64)
    _guard_(list(means), delta, gamma, seed, rule.name)


def _launch(name: str, *arguments: Any) -> Any:
    from tribayes.posterior.draw import launch  # Triton is imported where a kernel is run

    return getattr(launch, name)(*arguments)


_TENSORS = "Tensor[] means, Tensor delta, Tensor gamma, Tensor[] locs, Tensor[] scales, Tensor seeds"
_draw = torch.library.custom_op(
    "tribayes::draw",
    partial(_launch, "draw"),
    mutates_args=(),
    schema=f"({_TENSORS}, bool relative, ScalarType dtype) -> (Tensor, Tensor, Tensor)",
)
_draw_backward = torch.library.custom_op(
    "tribayes::draw_backward",
    partial(_launch, "backward"),
    mutates_args=(),
    schema=f"(Tensor grad, Tensor grad_kl, {_TENSORS}, Tensor squares) -> (Tensor, Tensor, Tensor)",
)
_guard_ = torch.library.custom_op(
    "tribayes::guard_",
    partial(_launch, "guard_"),
    mutates_args=("means", "delta", "gamma"),
    schema="(Tensor(a!)[] means, Tensor(b!) delta, Tensor(c!)? gamma, Tensor seed, str rule) -> ()",
)


@_draw.register_fake
def _(
    means: Any, delta: Tensor, gamma: Tensor, locs: Any, scales: Any, seeds: Tensor, relative: bool, dtype: torch.dtype
) -> Any:
    del gamma, scales
    drawn = delta.new_empty((seeds.shape[0], sum(rooms(means, dtype))), dtype=dtype)
    return drawn, delta.new_empty(()), delta.new_empty(len(means) if locs or relative else 0)


@_draw_backward.register_fake
def _(grad: Tensor, grad_kl: Tensor, means: Any, delta: Tensor, gamma: Tensor, *rest: Any) -> Any:
    del grad_kl, means, rest
    return delta.new_empty(grad.shape[1]), torch.empty_like(delta), torch.empty_like(gamma)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    means, delta, gamma, locs, scales, seeds, *_ = inputs
    ctx.counts = len(means), len(locs)
    ctx.set_materialize_grads(False)  # zeros for what nobody differentiates would be a launch each
    ctx.save_for_backward(delta, gamma, seeds, output[2], *means, *locs, *scales)


def _backward(ctx: Any, grad: Tensor | None, grad_kl: Tensor | None, _: Any) -> tuple[Any, ...]:
    tensors, priors = ctx.counts
    delta, gamma, seeds, squares, *saved = ctx.saved_tensors
    means, locs, scales = saved[:tensors], saved[tensors : tensors + priors], saved[tensors + priors :]
    if grad is None:
        grad = delta.new_zeros(len(seeds), sum(rooms(means, delta.dtype)))
    if grad_kl is None:
        grad_kl = delta.new_zeros(())
    by_means, by_delta, by_gamma = _draw_backward(
        grad.contiguous(), grad_kl, means, delta, gamma, locs, scales, seeds, squares
    )
    return (
        unflatten(by_means, means, grad.dtype),
        by_delta,
        by_gamma,
        [None] * priors,
        [None] * priors,
        None,
        None,
        None,
    )


_draw.register_autograd(_backward, setup_context=_setup)


@_draw.register_vmap
def _(info: Any, in_dims: Any, *inputs: Any) -> Any:
    """Over seeds alone: as many more draws."""
    *others, seeds_dim, _, _ = in_dims
    batched = [dim for item in others for dim in (item if isinstance(item, list | tuple) else [item])]
    if any(dim is not None for dim in batched) or seeds_dim is None:
        raise NotImplementedError(
            "the draw on a GPU is batched over its seeds only; move the model to a CPU for this vmap"
        )
    *arguments, seeds, relative, dtype = inputs
    seeds = seeds.movedim(seeds_dim, 0)
    drawn, divergence, squares = _draw(*arguments, seeds.reshape(-1), relative, dtype)
    return (drawn.reshape(info.batch_size, -1, drawn.shape[-1]), divergence, squares), (0, None, None)


def unflatten(rows: Tensor, like: Means, dtype: torch.dtype) -> list[Tensor]:
    """(…, total) cut into tensors, each with the shape and the memory order of its model; `dtype` is the draws'."""
    if len(like) == 1 and rows.shape[-1] == like[0].numel():
        return [_shaped(rows, like[0])]  # the gradients of one lie well
    lengths: list[int] = []  # of pieces
    kept: list[int] = []  # which of them are tensors
    for tensor, room in zip(like, rooms(like, dtype), strict=True):
        kept.append(len(lengths))
        lengths.append(tensor.numel())
        if gap := room - tensor.numel():
            lengths.append(gap)  # a piece of its own: to cut it off a piece would copy all gradients once more
    pieces = rows.split(lengths, -1)
    return [_shaped(pieces[place], tensor) for place, tensor in zip(kept, like, strict=True)]


def _shaped(piece: Tensor, like: Tensor) -> Tensor:
    if like.is_contiguous():
        return piece.view_as(like) if piece.ndim == 1 else piece.reshape(piece.shape[:-1] + like.shape)
    lead = piece.shape[:-1]
    axes = sorted(range(like.ndim), key=lambda axis: -like.stride()[axis])  # from the slowest in memory to the fastest
    back = [len(lead) + axes.index(axis) for axis in range(like.ndim)]
    return piece.reshape(lead + tuple(like.shape[axis] for axis in axes)).permute(*range(len(lead)), *back)
