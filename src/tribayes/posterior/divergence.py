"""Kullback-Leibler divergences to a Gaussian prior, registered with torch.distributions.

Equation (30) with its constant worked out:

    KL = ½ [ K ln ζ² − K ln τ² − Σ ln m_i² − ln det T + (τ²‖m‖² + ‖m − μ‖²)/ζ² − K ]

All of it is summed over the last axis; a prior `Normal(loc, scale)` may be scalar or have one entry per weight.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Independent, Normal, register_kl

from tribayes._errors import refusal
from tribayes.posterior.correlation import log_determinant
from tribayes.posterior.distributions import FactorisedNormal, TridiagonalNormal


def multiplicative_sums(mean: Tensor, prior: Normal) -> tuple[Tensor, Tensor]:
    """What (30) sums over the weights: Σ [(m − μ)²/ζ² + ln ζ² − ln m²], and Σ m²/ζ², which τ² multiplies."""
    _check_prior(prior, mean.shape[-1:])
    log_scale = prior.scale.log().expand(*prior.scale.shape[:-1], mean.shape[-1]).sum(-1)
    fixed = ((mean - prior.loc) / prior.scale).square().sum(-1) + 2 * (log_scale - mean.abs().log().sum(-1))
    return fixed, (mean / prior.scale).square().sum(-1)


def combined(fixed: Tensor, relative: Tensor, size: int | Tensor, tau: Tensor, coefficient: Tensor) -> Tensor:
    """(30) from its sums over the K = size weights."""
    return 0.5 * (fixed + tau.square() * relative - size * (1 + 2 * tau.log()) - log_determinant(coefficient, size))


def factorised_divergence(mean: Tensor, scale: Tensor, loc: Tensor, zeta: Tensor) -> Tensor:
    """KL of N(m, s²) from N(μ, ζ²) for each weight."""
    ratio, distance = scale / zeta, (mean - loc) / zeta
    return 0.5 * (ratio.square() + distance.square() - 1) - ratio.log()


@register_kl(TridiagonalNormal, Normal)
def _tridiagonal_normal(posterior: TridiagonalNormal, prior: Normal) -> Tensor:
    sums = multiplicative_sums(posterior.loc, prior)
    return combined(*sums, posterior.size, posterior.tau, posterior.coefficient)


@register_kl(TridiagonalNormal, Independent)
def _tridiagonal_independent(posterior: TridiagonalNormal, prior: Independent[Any]) -> Tensor:
    if not isinstance(prior.base_dist, Normal) or prior.reinterpreted_batch_ndims != 1:
        raise NotImplementedError(f"no closed form is known for the divergence to {prior}")
    return _tridiagonal_normal(posterior, prior.base_dist)


@register_kl(FactorisedNormal, Normal)
def _factorised_normal(posterior: FactorisedNormal, prior: Normal) -> Tensor:
    # written out: torch's dispatch for (Normal, Normal) breaks the graph of a compiled first call
    _check_prior(prior, posterior.event_shape)
    return factorised_divergence(posterior.mean, posterior.stddev, prior.loc, prior.scale).sum(-1)


def _check_prior(prior: Normal, event_shape: torch.Size) -> None:
    if prior.batch_shape and prior.batch_shape[-1] not in (1, event_shape[0]):
        raise refusal(
            "prior",
            tuple(prior.batch_shape),
            f"be scalar or have a last axis of K = {event_shape[0]} entries",
            "give one loc and scale for all weights, or one per weight",
        )
