"""The draw in plain torch, differentiated by autograd: the oracle of the other two, and the way of every other case.

With τ ε_i = A x_i + B x_{i−1} over K + 1 normals (correlation.py; A = τα, B = τβ) a tensor's draw is w = m + |m| τ ε.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor

from tribayes.posterior import parametrisation
from tribayes.posterior.correlation import correlate, log_determinant, mixing
from tribayes.posterior.distributions import combined, multiplicative_sums
from tribayes.posterior.parametrisation import Sources
from tribayes.posterior.prior import AnyTensorPrior, TensorPrior, are_relative
from tribayes.posterior.streams import Randomness, generator_of, standard_normals

Means = Sequence[Tensor]
Count = int | None  # of draws; None for one, without a leading axis
Priors = Sequence[AnyTensorPrior] | None
Sums = Callable[[Means, Sequence[TensorPrior]], Tensor]
WeightsAndKL = tuple[list[Tensor], Tensor | None]  # the weights, and KL(q ‖ p) where priors were given


def draw(
    means: Means, delta: Tensor, gamma: Tensor, randomness: Randomness, count: Count = None, priors: Priors = None
) -> WeightsAndKL:
    """As `tribayes.posterior.draw.draw`."""
    sources = sources_of(means, randomness)
    rounds = [weights_from(means, delta, gamma, normals_for(means, sources)) for _ in range(count or 1)]
    weights = rounds[0] if count is None else [torch.stack(column) for column in zip(*rounds, strict=True)]
    return weights, None if priors is None else divergence_of(means, delta, gamma, priors)


def sources_of(means: Means, randomness: Randomness) -> Sources:
    """One generator per device: a seed is not started anew for each tensor."""
    return {device: generator_of(randomness, device) for device in dict.fromkeys(mean.device for mean in means)}


def normals_for(means: Means, sources: Sources) -> list[Tensor]:
    """x_0 … x_K for each tensor."""
    return [standard_normals(mean.numel() + 1, mean, sources[mean.device]) for mean in means]


def weights_from(means: Means, delta: Tensor, gamma: Tensor, normals: Sequence[Tensor]) -> list[Tensor]:
    """The weights that given normals make, each in the shape and dtype of its mean."""
    tau, t = parametrisation.tau_of(single(delta)), parametrisation.coefficient_of(single(gamma))
    current, previous = (column.unbind() for column in mixing(t, tau))
    weights = []
    for mean, x, a, b in zip(means, normals, current, previous, strict=True):
        row = flat(mean)
        drawn = row + row.abs() * correlate(x, a.to(row), b.to(row))
        weights.append(drawn.reshape(mean.shape).to(mean.dtype))
    return weights


def divergence_of(
    means: Means, delta: Tensor, gamma: Tensor, priors: Sequence[AnyTensorPrior], sums: Sums | None = None
) -> Tensor:
    """KL(q ‖ p) summed over all tensors, those with a relative prior by themselves; `sums` are those of (30)."""
    kinds = are_relative(priors)
    if all(kinds):
        return _relative_divergence(means, delta, gamma)
    if not any(kinds):
        found = (sums or _sums)(means, cast(Sequence[TensorPrior], priors)).to(delta.device)
        return _fixed_divergence(means, delta, gamma, found)
    parts = []
    for kind in (True, False):
        numbers = [number for number, relative in enumerate(kinds) if relative is kind]
        own_delta, own_gamma = (torch.stack([column[n] for n in numbers]) for column in (delta, gamma))
        own_means, own_priors = [means[n] for n in numbers], [priors[n] for n in numbers]
        parts.append(divergence_of(own_means, own_delta, own_gamma, own_priors, sums))
    return parts[0] + parts[1]


def _sums(means: Means, priors: Sequence[TensorPrior]) -> Tensor:
    """(T, 2): what (30) sums over the weights of every tensor."""
    normals = [prior.distribution(flat(mean).dtype) for prior, mean in zip(priors, means, strict=True)]
    sums = [torch.stack(multiplicative_sums(flat(m), p)) for m, p in zip(means, normals, strict=True)]
    return torch.stack([each.to(sums[0].device) for each in sums])


def _fixed_divergence(means: Means, delta: Tensor, gamma: Tensor, sums: Tensor) -> Tensor:
    """Equation (30): two sums per tensor, and what depends on τ and ρ as vectors."""
    fixed, relative = sums.unbind(-1)  # (T,) each
    tau, t = parametrisation.tau_of(single(delta)).to(fixed), parametrisation.coefficient_of(single(gamma)).to(fixed)
    return combined(fixed, relative, _sizes(means, fixed), tau, t).sum()


def _relative_divergence(means: Means, delta: Tensor, gamma: Tensor) -> Tensor:
    """½ K ln(1 + 1/τ²) − ½ ln det T (prior.py): no pass over the means."""
    tau, t = parametrisation.tau_of(single(delta)), parametrisation.coefficient_of(single(gamma))
    sizes = _sizes(means, tau)
    return 0.5 * (sizes * tau.pow(-2).log1p() - log_determinant(t, sizes)).sum()


def _sizes(means: Means, like: Tensor) -> Tensor:
    """K of every tensor; made where they are needed, for a copy would wait."""
    return torch.cat([like.new_full((1,), mean.numel()) for mean in means])


def flat(mean: Tensor) -> Tensor:
    """Row-major, and at least float32: the law's arithmetic is not done in half precision."""
    return single(mean.reshape(-1))


def single(raw: Tensor) -> Tensor:
    """At least float32."""
    return raw.to(torch.promote_types(raw.dtype, torch.float32))
