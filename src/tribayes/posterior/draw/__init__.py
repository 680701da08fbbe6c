"""One draw, three implementations of it: plain torch (the oracle), a CPU's, and Triton kernels for a GPU.

A fourth, for networks of which every process holds a part (sharded.py), is the plain one for each part.

All take the means of a network, the raw parameters δ and γ with one entry per tensor, and randomness; they give weights
and, where priors are given, the divergence from these. Which one draws follows from the tensors; their random numbers
differ between CPU and GPU, their law does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from torch import Tensor

from tribayes.posterior.draw import cpu, cuda, plain, sharded
from tribayes.posterior.draw.plain import Count, Means, Priors, WeightsAndKL
from tribayes.posterior.parametrisation import Rule, guard_gamma_, guard_means_
from tribayes.posterior.prior import AnyTensorPrior, are_relative
from tribayes.posterior.shards import any_sharded
from tribayes.posterior.streams import Randomness, Seeds, without_seeds

PLAIN, CPU, TRITON, SHARDED = "plain", "cpu", "triton", "sharded"

_HAS_TRITON = find_spec("triton") is not None  # asked once: torch.compile does not trace it


def implementation_for(means: Means, delta: Tensor, gamma: Tensor) -> str:
    """Which implementation draws these tensors."""
    if any_sharded((*means, delta)):
        return SHARDED
    if delta.is_cuda:
        return TRITON if _HAS_TRITON and cuda.can_draw(means, delta) else PLAIN
    return CPU if cpu.can_draw(means, delta, gamma) else PLAIN


def draw(
    means: Means,
    delta: Tensor,
    gamma: Tensor,
    randomness: Seeds = None,
    count: Count = None,
    priors: Priors = None,
    implementation: str | None = None,
) -> WeightsAndKL:
    """Draws of all tensors from N(m, Σ), and with priors the divergence from them.

    Args:
        means: T tensors of any shapes.
        delta, gamma: (T,), the raw τ and ρ of each.
        randomness: a generator, a seed or stream, None for torch's global generator; for the kernels also their seeds,
            (count,) int64 on the device.
        count: None for one draw in the shapes of the means; a number for that many, stacked along a new leading axis.
            The first is the draw alone.
        priors: one per tensor.
        implementation: by its name, for tests; None chooses.
    """
    chosen = implementation or implementation_for(means, delta, gamma)
    if chosen == SHARDED:
        return sharded.draw(means, delta, gamma, without_seeds(randomness), count, priors)
    if len(set(are_relative(priors or ()))) == 2:  # both kinds in one network: no one pass for them
        weights, _ = draw(means, delta, gamma, randomness, count, None, chosen)
        return weights, plain.divergence_of(means, delta, gamma, priors or ())
    if chosen == TRITON:
        return cuda.draw(means, delta, gamma, randomness, count, priors)
    take = cpu.draw if chosen == CPU else plain.draw
    return take(means, delta, gamma, without_seeds(randomness), count, priors)


def divergence_of(means: Means, delta: Tensor, gamma: Tensor, priors: Sequence[AnyTensorPrior]) -> Tensor:
    """KL(q ‖ p) in nats, summed over all tensors."""
    find = sharded.divergence_of if implementation_for(means, delta, gamma) == SHARDED else plain.divergence_of
    return find(means, delta, gamma, priors)


def guard_(
    means: Means,
    delta: Tensor,
    gamma: Tensor | None,
    rule: Rule,
    randomness: Randomness = None,
    implementation: str | None = None,
) -> None:
    """All guards (parametrisation.py), in place; one launch where the kernels draw.

    `means` are those that must not be zero; γ is None where there is none.
    """
    chosen = implementation or implementation_for(means, delta, delta if gamma is None else gamma)
    if chosen == TRITON and means:
        cuda.guard_(means, delta, gamma, rule, randomness)
        return
    if chosen == SHARDED:
        sharded.guard_(means, delta, gamma, rule, randomness)
        return
    sources = plain.sources_of([*means, delta], randomness)
    guard_means_(means, rule, sources)
    delta.clamp_(min=rule.smallest_delta)
    if gamma is not None:
        guard_gamma_(gamma, rule, sources)
