"""A likelihood whose best τ and ρ are known, for a tensor of any size.

    ½ h [‖u‖² + 2a Σ u_i u_{i+1}] − bᵀu + noise,     u = w − m*,

over one tensor of K weights, beside ν KL under the relative prior, with ν = 0.1/ΣK of the whole network. On average
over the draw, with S = Σ |m_i m_{i+1}|, it is ½ h τ² (‖m‖² + 2aρS) + …, so (τ*, ρ*) is best where

    h τ² (1 + τ²) (‖m‖² + 2aρS) = νK,     h τ² a S = ½ ν ∂ ln det T/∂ρ,

and these two give h and a in closed form for the (τ*, ρ*) that is wanted; b makes m* the best mean. The tensors of a
network meet in ν alone, so each is trained by itself.

Noise as minibatches have it: a normal added to every weight's gradient, `noise` times as large as what the draw does to
it, and a factor on the whole likelihood, log-normal with mean 1: without the one small tensors, without the other large
ones would have no noise to speak of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.scale_steps.fisher import log_determinant_slopes

TAU, RHO = 0.3, -0.2  # the best ones; without correlation ρ is 0
FIRST_TAU = 0.05  # both start away from them, ρ at 0
SPREAD = 0.3  # standard deviation of the logarithm of the factor


@dataclass(frozen=True)
class Problem:
    """One tensor, once for each seed: (S, K) means, and numbers as (S, 1)."""

    size: int
    nu: float
    rho: float  # the best one
    best: Tensor  # m*
    height: Tensor  # h
    coupling: Tensor  # a
    pull: Tensor  # b
    deviation: Tensor  # of the noise on each weight's gradient


def problem_of(
    size: int, nu: float, correlated: bool, noise: float, seeds: Sequence[int], device: torch.device
) -> Problem:
    """The problem of a tensor of K = size weights; the same for every candidate."""
    sources = [torch.Generator().manual_seed(1000 * size + seed) for seed in seeds]
    plain = torch.stack([torch.rand(size, generator=source) for source in sources]).to(device) - 0.5
    best = 2 * plain + 0.5 * plain.sign()  # magnitudes from ½ to 1½: neighbours of very different size could not pull
    rho = RHO if correlated else 0.0
    energy = best.double().square().sum(-1, keepdim=True)
    neighbours = (best[:, 1:] * best[:, :-1]).double().abs().sum(-1, keepdim=True) / energy
    push = (1 + TAU**2) * determinant_slope(rho, size) / (2 * size)
    share = push / (1 - 2 * rho * push)  # a S / ‖m‖²
    coupling = share / neighbours
    if (coupling.abs() >= 0.5).any():
        raise ValueError(f"the curvature for K = {size} is not positive; take means of more even size or a smaller ρ")
    height = nu * size / (TAU**2 * (1 + TAU**2) * (1 + 2 * rho * share) * energy)
    sizes = best.abs()
    beside = both_sides(sizes)
    pull = height * TAU**2 * (best + coupling * rho * best.sign() * beside)
    deviation = noise * height * TAU * (energy / size).sqrt()
    single = [one.float() for one in (height, coupling, pull, deviation)]
    return Problem(size, nu, rho, best, *single)


def determinant_slope(rho: float, size: int) -> float:
    """∂ ln det T/∂ρ."""
    r = torch.tensor(rho, dtype=torch.float64)
    t = 2 * r / (1 + (1 - 4 * r.square()).sqrt())
    first, _ = log_determinant_slopes(t, size)
    return float(first * (1 + t.square()).square() / (1 - t.square()))


def both_sides(values: Tensor) -> Tensor:
    """The sum of the two neighbours along the last axis; those at the ends have one."""
    found = torch.zeros_like(values)
    found[..., 1:] += values[..., :-1]
    found[..., :-1] += values[..., 1:]
    return found


@dataclass(frozen=True)
class Slopes:
    """The gradient of one step: of the means (A, S, K), and of τ and t (A, S)."""

    mean: Tensor
    tau: Tensor
    t: Tensor


@dataclass(frozen=True)
class Chance:
    """What is random in a step, shared by all candidates: normals (S, K + 1), noise (S, K), factors (S, 1)."""

    normals: Tensor
    noise: Tensor
    factor: Tensor


def chance_of(problem: Problem, source: torch.Generator) -> Chance:
    seeds, size = problem.best.shape
    device = problem.best.device
    normals, noise = (torch.randn(seeds, n, generator=source, device=device) for n in (size + 1, size))
    factor = torch.exp(SPREAD * torch.randn(seeds, 1, generator=source, device=device) - SPREAD**2 / 2)
    return Chance(normals, noise.mul_(problem.deviation), factor)


def slopes_of(problem: Problem, mean: Tensor, tau: Tensor, t: Tensor, chance: Chance) -> Slopes:
    """The gradient of likelihood + ν KL at (A, S, K) means and (A, S) numbers in float64, by the law's short formulas.

    ∂/∂m_i = g_i (1 + sign(m_i) τ ε_i),  ∂/∂τ = Σ g_i |m_i| ε_i,  ∂/∂t = τ Σ g_i |m_i| ∂ε_i/∂t  (docs/law.md).
    """
    before, own = chance.normals[:, :-1], chance.normals[:, 1:]
    alpha = (1 + t.square()).rsqrt()
    current, previous = ((tau * alpha).float()[..., None], (tau * alpha * t).float()[..., None])
    relative = torch.addcmul(own * current, before, previous)  # τ ε
    relative *= mean.sign()  # noise is m times this
    moved = (mean - problem.best).addcmul_(mean, relative)
    slope = moved + problem.coupling * both_sides(moved) if problem.rho else moved
    slope = slope.mul_(problem.height).sub_(problem.pull).mul_(chance.factor).add_(chance.noise)
    weighted = slope * mean.abs()
    by_own, by_before = ((weighted * one).sum(-1).double() for one in (own, before))
    first, _ = log_determinant_slopes(t, problem.size)
    price = -problem.nu * problem.size / (tau * (1 + tau.square()))
    by_tau = alpha * (by_own + t * by_before) + price
    by_t = tau * alpha**3 * (by_before - t * by_own) - 0.5 * problem.nu * first
    return Slopes(slope.mul_(relative.add_(1)), by_tau, by_t)
