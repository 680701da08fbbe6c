"""Kullback-Leibler divergences to a Gaussian prior, registered with torch.distributions.

Equation (30) with its constant worked out:

    KL = ½ [ K ln ζ² − K ln τ² − Σ ln m_i² − ln det T + (τ²‖m‖² + ‖m − μ‖²)/ζ² − K ]

All of it is summed over the last axis; a prior `Normal(loc, scale)` may be scalar or have an entry a weight.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Independent, Normal, register_kl

from tribayes._errors import refusal
from tribayes.posterior.factorised import FactorisedNormal
from tribayes.posterior.tridiagonal import TridiagonalNormal


@register_kl(TridiagonalNormal, Normal)
def _tridiagonal_normal(posterior: TridiagonalNormal, prior: Normal) -> Tensor:
    _check_prior(prior, posterior.event_shape)
    variance = prior.scale.square()
    trace = (posterior.variance / variance).sum(-1)
    distance = ((posterior.loc - prior.loc).square() / variance).sum(-1)
    log_prior = variance.log().expand(*variance.shape[:-1], posterior.size).sum(-1)
    return 0.5 * (log_prior - posterior._log_determinant() + trace + distance - posterior.size)


@register_kl(TridiagonalNormal, Independent)
def _tridiagonal_independent(posterior: TridiagonalNormal, prior: Independent[Any]) -> Tensor:
    if not isinstance(prior.base_dist, Normal) or prior.reinterpreted_batch_ndims != 1:
        raise NotImplementedError(f"no closed form is known for the divergence to {prior}")
    return _tridiagonal_normal(posterior, prior.base_dist)


@register_kl(FactorisedNormal, Normal)
def _factorised_normal(posterior: FactorisedNormal, prior: Normal) -> Tensor:
    _check_prior(prior, posterior.event_shape)
    # written out: torch's dispatch for (Normal, Normal) breaks the graph of a compiled first call
    ratio = (posterior.stddev / prior.scale).square()
    distance = ((posterior.mean - prior.loc) / prior.scale).square()
    return 0.5 * (ratio - ratio.log() + distance - 1).sum(-1)


def multiplicative_sums(mean: Tensor, prior: Normal) -> Tensor:
    """(2,): what (30) sums over the K weights of a tensor whose noise is τ|m|.

    Σ [(m − μ)²/ζ² + ln ζ² − ln m²], which τ and ρ do not touch, and Σ m²/ζ², which τ² multiplies.
    """
    _check_prior(prior, mean.shape)
    log_scale = prior.scale.log().expand(mean.shape).sum()
    fixed = ((mean - prior.loc) / prior.scale).square().sum() + 2 * (log_scale - mean.abs().log().sum())
    return torch.stack([fixed, (mean / prior.scale).square().sum()])


def _check_prior(prior: Normal, event_shape: torch.Size) -> None:
    if prior.batch_shape and prior.batch_shape[-1] not in (1, event_shape[0]):
        raise refusal(
            "prior",
            tuple(prior.batch_shape),
            f"be scalar or have a last axis of K = {event_shape[0]} entries",
            "give one loc and scale for all weights, or one a weight",
        )
