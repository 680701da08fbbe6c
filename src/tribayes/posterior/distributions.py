"""The laws of one tensor as torch distributions, and their Kullback-Leibler divergences to a Gaussian prior.

The paper's is N(m, Σ) with Σ = τ² diag|m| T(ρ) diag|m|; what it is compared with are independent Gaussians. Equation
(30) with its constant worked out:

    KL = ½ [ K ln ζ² − K ln τ² − Σ ln m_i² − ln det T + (τ²‖m‖² + ‖m − μ‖²)/ζ² − K ]

All of it is summed over the last axis; a prior `Normal(loc, scale)` may be scalar or have one entry per weight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, Normal, constraints, register_kl

from tribayes._errors import check_all, check_plain, refusal, wrong_type
from tribayes.posterior import correlation
from tribayes.posterior.counter import CountedNormals
from tribayes.posterior.streams import Randomness, normals_from

_LARGEST_DENSE = 2**28  # entries of a dense covariance: one GiB in float32


class _OpenInterval(constraints.interval):
    """Strictly between two bounds (torch's own interval includes them)."""

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound < value) & (value < self.upper_bound)


class _NonZeroVector(constraints.Constraint):
    """Finite and non-zero along the last axis: a variance τ²m² of zero is no density."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (torch.isfinite(value) & (value != 0)).all(-1)


class TridiagonalNormal(Distribution):
    """A Gaussian over the last axis with variances τ²m_i² and correlation ρ between neighbours only.

    Everything but the dense `covariance_matrix` takes O(K) time and memory.

    Args:
        loc: means m, (..., K), finite and non-zero.
        tau: relative standard deviation τ > 0, broadcast to the batch shape (...).
        rho: neighbour correlation in (−½, ½), broadcast to the batch shape.
        coefficient: the moving-average coefficient of `rho`, where it is known to more digits (near |ρ| = ½).

    Example:
        >>> law = TridiagonalNormal(torch.tensor([1.0, -2.0, 0.5]), tau=0.1, rho=-0.3)
        >>> law.rsample((4,)).shape
        torch.Size([4, 3])
        >>> round(law.covariance_matrix[0, 1].item(), 6)  # ρ τ² |m_1| |m_2|
        -0.006
    """

    arg_constraints = {  # noqa: RUF012 - torch declares it as an instance attribute
        "loc": _NonZeroVector(),
        "tau": constraints.positive,
        "rho": _OpenInterval(-0.5, 0.5),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        tau: Tensor | float,
        rho: Tensor | float,
        validate_args: bool | None = None,
        *,
        coefficient: Tensor | None = None,
    ) -> None:
        _check_loc(loc)
        tau, rho = _like(loc, "tau", tau), _like(loc, "rho", rho)
        # torch's own default is no guide: the first torch.compile of a process turns it off for good
        if validate_args is not False and not torch.compiler.is_compiling():
            _check_values(loc, tau, rho)
        # these keep their own shapes: a gradient for each is reduced once, in the draw
        self._tau, self._rho = tau, rho
        self._coefficient = correlation.coefficient_of(rho) if coefficient is None else coefficient
        batch = torch.broadcast_shapes(loc.shape[:-1], tau.shape, rho.shape)
        self.loc = loc.expand(*batch, loc.shape[-1])
        super().__init__(batch, loc.shape[-1:], validate_args=False)

    @property
    def tau(self) -> Tensor:
        """τ, of the batch shape."""
        return self._tau.expand(self.batch_shape)

    @property
    def rho(self) -> Tensor:
        """ρ, of the batch shape."""
        return self._rho.expand(self.batch_shape)

    @property
    def coefficient(self) -> Tensor:
        """t, the moving-average coefficient of ρ, of the batch shape."""
        return self._coefficient.expand(self.batch_shape)

    @property
    def size(self) -> int:
        """K, the number of weights."""
        return self.event_shape[0]

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def stddev(self) -> Tensor:
        return self.tau.unsqueeze(-1) * self.loc.abs()

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    @property
    def factor(self) -> tuple[Tensor, Tensor]:
        """The bidiagonal factor L of Σ = L Lᵀ by its diagonal a (..., K) and subdiagonal c (..., K − 1).

        With the signs of the paper's equations (10)-(13), which are those of the Cholesky factor up to a sign
        for each column; ρ = 0, where the paper's quotient (12) is 0/0, is an ordinary point.
        """
        root = correlation.pivots(self._coefficient, self.size).sqrt()
        sign = (self.loc[..., :-1] * self.loc[..., 1:]).sign()
        scale = self.stddev
        diagonal = scale * root
        a = torch.cat([sign * diagonal[..., :-1], diagonal[..., -1:]], -1)
        c = sign * self.rho.unsqueeze(-1) * scale[..., 1:] / root[..., :-1]
        return a, c

    @property
    def covariance_matrix(self) -> Tensor:
        """Σ as a dense (..., K, K) matrix: for looking at small cases."""
        entries = math.prod(self.batch_shape) * self.size**2
        if entries > _LARGEST_DENSE:
            limit = f"at most {_LARGEST_DENSE:,} entries (this one has {entries:,})"
            remedy = "use `variance`, `rho` and `factor`, which say the same in O(K)"
            raise refusal("K", self.size, f"be small enough for a dense covariance of {limit}", remedy)
        scale = self.stddev
        beside = self.rho.unsqueeze(-1) * scale[..., :-1] * scale[..., 1:]
        diagonal, below, above = scale.square(), torch.diag_embed(beside, -1), torch.diag_embed(beside, 1)
        return torch.diag_embed(diagonal) + above + below

    def expand(self, batch_shape: Any, _instance: Any = None) -> TridiagonalNormal:
        law = self._get_checked_instance(TridiagonalNormal, _instance)
        batch = torch.Size(batch_shape)
        law.loc = self.loc.expand(batch + self.event_shape)
        law._tau, law._rho, law._coefficient = self._tau, self._rho, self._coefficient
        super(TridiagonalNormal, law).__init__(batch, self.event_shape, validate_args=False)
        return law

    def rsample(self, sample_shape: Any = (), generator: Randomness | CountedNormals = None) -> Tensor:
        """Draws of shape sample_shape + (..., K), differentiable in m, τ and ρ.

        Exact in law, from K + 1 independent normals per draw; `generator` is a torch.Generator or a seed.
        """
        shape = torch.Size((*_sample_shape(sample_shape), *self.batch_shape, self.size + 1))
        normals = normals_from(generator, shape, self.loc)
        noise = correlation.correlate(normals, *correlation.mixing(self._coefficient, self._tau))
        return self.loc + self.loc.abs() * noise

    def log_prob(self, value: Tensor) -> Tensor:
        """ln q(w), of shape sample + batch."""
        if not isinstance(value, Tensor) or value.dtype != self.loc.dtype:
            raise wrong_type("value", value, f"be a tensor of {self.loc.dtype}", "convert it with value.to(loc)")
        check_plain("value", value)
        if value.shape[-1:] != self.event_shape:
            raise refusal("value", value, f"end in K = {self.size} entries", "give one weight vector per row")
        noise = (value - self.loc) / self.stddev
        quadratic = correlation.quadratic_form(noise, self._coefficient.expand(noise.shape[:-1]))
        return -0.5 * (quadratic + self.size * math.log(2 * math.pi) + self._log_determinant())

    def entropy(self) -> Tensor:
        return 0.5 * (self.size * (1 + math.log(2 * math.pi)) + self._log_determinant())

    def _log_determinant(self) -> Tensor:
        """ln det Σ = K ln τ² + Σ ln m_i² + ln det T."""
        scales = 2 * self.size * torch.log(self._tau) + self.loc.abs().log().sum(-1) * 2
        return scales + correlation.log_determinant(self._coefficient, self.size)


class FactorisedNormal(Independent[Normal]):
    """N(loc, diag scale²) over the last axis, drawn from a given generator.

    torch's `Independent(Normal(...), 1)`, whose `rsample` takes no generator, with one that does. Shapes: loc
    (..., K), scale broadcast to it.

    Example:
        >>> FactorisedNormal(torch.zeros(3), torch.ones(3)).rsample((2,), generator=0).shape
        torch.Size([2, 3])
    """

    def __init__(self, loc: Tensor, scale: Tensor, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args=validate_args), 1, validate_args=validate_args)

    def rsample(self, sample_shape: Any = (), generator: Randomness | CountedNormals = None) -> Tensor:
        """Draws of shape sample_shape + (..., K), differentiable in loc and scale."""
        loc, scale = self.base_dist.loc, self.base_dist.scale
        shape = _sample_shape(sample_shape) + loc.shape
        normals = normals_from(generator, shape, loc)
        return torch.addcmul(loc, scale, normals)


def _sample_shape(shape: Any) -> torch.Size:
    if not isinstance(shape, Sequence) or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise wrong_type("sample_shape", shape, "be a sequence of whole numbers", "pass e.g. (5,), or ()")
    return torch.Size(shape)


def _check_loc(loc: Tensor) -> None:
    if not isinstance(loc, Tensor):
        raise wrong_type("loc", loc, "be a tensor", "pass the means as torch.tensor([...])")
    if loc.dtype not in (torch.float32, torch.float64):
        raise wrong_type("loc", loc, "be float32 or float64", "convert it with loc.float()")
    if loc.ndim == 0 or loc.shape[-1] == 0:
        raise refusal("loc", loc, "have a last axis of at least one weight", "pass loc.reshape(-1)")


def _like(loc: Tensor, name: str, value: Tensor | float) -> Tensor:
    try:
        tensor = torch.as_tensor(value, dtype=loc.dtype, device=loc.device)
    except (TypeError, ValueError, RuntimeError, OverflowError):  # as torch refuses words, and what no float holds
        raise wrong_type(name, value, "be a number or a tensor", f"pass e.g. {name}=0.1") from None
    if isinstance(value, Tensor) and value.dtype != loc.dtype:
        raise wrong_type(name, value, f"have the dtype of `loc`, {loc.dtype}", f"convert it with {name}.to(loc.dtype)")
    try:
        torch.broadcast_shapes(loc.shape[:-1], tensor.shape)
    except RuntimeError as error:
        shape = f"the batch shape {tuple(loc.shape[:-1])} of `loc` (its shape less the last axis)"
        raise refusal(name, tensor, f"broadcast against {shape}", f"give one {name} per vector of means") from error
    return tensor


def _check_values(loc: Tensor, tau: Tensor, rho: Tensor) -> None:
    for name, value in (("loc", loc), ("tau", tau), ("rho", rho)):
        check_plain(name, value)
    requirement = "be finite and non-zero everywhere, since the standard deviation is τ|m|"
    remedy = "replace zeros by a small number such as ±1e-6 (tribayes.stabilise_ does)"
    check_all("loc", loc, torch.isfinite(loc) & (loc != 0), requirement, remedy)
    remedy = "it is the standard deviation relative to |m|, such as 0.05"
    check_all("tau", tau, torch.isfinite(tau) & (tau > 0), "be finite and positive", remedy)
    requirement = "lie strictly between -0.5 and 0.5, or the tridiagonal covariance need not be positive definite"
    check_all("rho", rho, rho.abs() < 0.5, requirement, "choose a smaller correlation")


def multiplicative_sums(mean: Tensor, prior: Normal) -> tuple[Tensor, Tensor]:
    """What (30) sums over the weights: Σ [(m − μ)²/ζ² + ln ζ² − ln m²], and Σ m²/ζ², which τ² multiplies."""
    _check_prior(prior, mean.shape[-1:])
    log_scale = prior.scale.log().expand(*prior.scale.shape[:-1], mean.shape[-1]).sum(-1)
    fixed = ((mean - prior.loc) / prior.scale).square().sum(-1) + 2 * (log_scale - mean.abs().log().sum(-1))
    return fixed, (mean / prior.scale).square().sum(-1)


def combined(fixed: Tensor, relative: Tensor, size: int | Tensor, tau: Tensor, coefficient: Tensor) -> Tensor:
    """(30) from its sums over the K = size weights."""
    determinant = correlation.log_determinant(coefficient, size)
    return 0.5 * (fixed + tau.square() * relative - size * (1 + 2 * tau.log()) - determinant)


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
        requirement = f"be scalar or have a last axis of K = {event_shape[0]} entries"
        remedy = "give one loc and scale for all weights, or one per weight"
        raise refusal("prior", tuple(prior.batch_shape), requirement, remedy)
