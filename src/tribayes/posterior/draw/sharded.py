"""The draw of a network of which every process holds a part: each draws its own, and they gather the weights.

A weight is made of two neighbouring normals, and a part of a tensor of the normals at its places and one before. Every
process makes the normals of the whole tensor and keeps these, which costs time on each but no communication, and the
law holds across the borders: the draw is the one that a single process makes of the same seed. All processes meet one
draw. The divergence is a sum over parts, and ln det T follows from the size of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tribayes.posterior import shards
from tribayes.posterior.distributions import multiplicative_sums
from tribayes.posterior.draw import plain
from tribayes.posterior.draw.plain import Count, Means, Priors, WeightsAndKL
from tribayes.posterior.parametrisation import Rule, guard_gamma_, guard_means_
from tribayes.posterior.prior import AnyTensorPrior, TensorPrior
from tribayes.posterior.streams import Randomness, standard_normals


def draw(
    means: Means, delta: Tensor, gamma: Tensor, randomness: Randomness, count: Count = None, priors: Priors = None
) -> WeightsAndKL:
    """As `tribayes.posterior.draw.draw`; to be called by all processes together. The weights are whole."""
    shards.check_all_sharded([*means, delta, gamma])
    source = shards.common_generator(randomness, means[0])
    raw = shards.summed(delta), shards.summed(gamma)
    rounds = [_weights(means, *raw, source) for _ in range(count or 1)]
    weights = rounds[0] if count is None else [torch.stack(column) for column in zip(*rounds, strict=True)]
    return weights, None if priors is None else divergence_of(means, delta, gamma, priors)


def divergence_of(means: Means, delta: Tensor, gamma: Tensor, priors: Sequence[AnyTensorPrior]) -> Tensor:
    """KL(q ‖ p) of the whole network, the same in every process."""
    shards.check_all_sharded([*means, delta, gamma])
    return plain.divergence_of(means, shards.whole(delta), shards.whole(gamma), priors, sums=_sums)


def guard_(means: Means, delta: Tensor, gamma: Tensor | None, rule: Rule, randomness: Randomness) -> None:
    """All guards, each process those of its own part."""
    source = shards.common_generator(randomness, delta) if rule.coin_for_sign else None
    delta, parts = shards.local(delta), [shards.local(mean) for mean in means]
    sources = {delta.device: source}
    guard_means_(parts, rule, sources)
    delta.clamp_(min=rule.smallest_delta)
    if gamma is not None:
        guard_gamma_(shards.local(gamma), rule, sources)


def _weights(means: Means, delta: Tensor, gamma: Tensor, source: torch.Generator) -> list[Tensor]:
    parts = [shards.local(mean) for mean in means]
    normals = []
    for mean, part in zip(means, parts, strict=True):
        begin, end = shards.bounds(mean)
        normals.append(standard_normals(mean.numel() + 1, part, source)[begin : end + 1].clone())
    drawn = plain.weights_from(parts, delta, gamma, normals)
    device = delta.device.type  # on a GPU weights come as autocast wants them, also by the kernels
    cast = device == "cuda" and torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device) if cast else None
    return [shards.gathered(part, mean, dtype) for part, mean in zip(drawn, means, strict=True)]


def _sums(means: Means, priors: Sequence[TensorPrior]) -> Tensor:
    """(T, 2): what (30) sums over the weights of every tensor."""
    own = [torch.stack(multiplicative_sums(*_part(m, prior))) for m, prior in zip(means, priors, strict=True)]
    return shards.total(torch.stack(own), means[0])


def _part(mean: Tensor, prior: TensorPrior) -> tuple[Tensor, torch.distributions.Normal]:
    """This process's part of a tensor, flat, and of its prior."""
    row, (begin, end) = plain.flat(shards.local(mean)), shards.bounds(mean)
    given = prior.distribution(row.dtype)
    loc, scale = (value[begin:end] if value.numel() > 1 else value for value in (given.loc, given.scale))
    return row, torch.distributions.Normal(loc, scale, validate_args=False)
