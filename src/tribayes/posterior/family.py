"""Posterior families: raw parameters for all tensors of a network, and the law they give each of them.

A family holds what is learned beside the means. The tridiagonal family of the paper has two numbers a tensor,
kept as two vectors with an entry a tensor, so that an optimizer step touches two small arrays and not dozens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

from tribayes._errors import refusal, wrong_type
from tribayes.posterior import correlation, parametrisation
from tribayes.posterior.divergence import multiplicative_sums
from tribayes.posterior.factorised import FactorisedNormal
from tribayes.posterior.guards import Rule, guard_delta_, guard_gamma_
from tribayes.posterior.tridiagonal import TridiagonalNormal

Law = TridiagonalNormal | FactorisedNormal

_SMALLEST_SCALE = 1e-3  # start of a mean-field standard deviation where the weights themselves are zero


class Family(nn.Module, ABC):
    """Base of the families. Built from the means and the initial τ and ρ of each tensor."""

    multiplicative: ClassVar[bool]  # noise proportional to |m|: the means must then not be zero
    correlated: ClassVar[bool]

    @abstractmethod
    def __init__(self, means: Sequence[Tensor], tau: Sequence[float], rho: Sequence[float]) -> None: ...

    @abstractmethod
    def laws(self, means: Sequence[Tensor]) -> list[Law]:
        """The distributions of all tensors, whose flat means (K,) are given: scalars are computed for all at once."""

    def divergence(self, means: Sequence[Tensor], priors: Sequence[Normal]) -> Tensor:
        """KL(q ‖ p) summed over all tensors."""
        terms = [kl_divergence(law, prior) for law, prior in zip(self.laws(means), priors, strict=True)]
        return torch.stack([term.to(terms[0].device) for term in terms]).sum()

    @abstractmethod
    def relative_scale(self, index: int, mean: Tensor) -> Tensor:
        """τ: the standard deviation relative to |m| (root mean square where it varies)."""

    @abstractmethod
    def scale_parameters(self) -> list[nn.Parameter]:
        """What is learned about scales."""

    @abstractmethod
    def correlation_of(self, index: int) -> Tensor:
        """ρ of tensor number `index`."""

    def correlation_parameters(self) -> list[nn.Parameter]:
        """What is learned about correlations."""
        return []

    @abstractmethod
    def stabilise_(self, rule: Rule, generator: torch.Generator | None = None) -> None:
        """Apply the guards to the raw parameters, in place."""

    def raw_pair(self) -> tuple[Tensor, Tensor] | None:
        """δ and γ of all tensors, (T,) each, for the paper's family and its special case: what the fused draw takes."""
        return None


class Diagonal(Family):
    """w_i = m_i + τ|m_i| x_i with one τ a tensor: the earlier model of Posch et al. (2019)."""

    multiplicative = True
    correlated = False
    sizes: Tensor  # K of each tensor

    def __init__(self, means: Sequence[Tensor], tau: Sequence[float], rho: Sequence[float]) -> None:
        nn.Module.__init__(self)
        del rho
        self.delta = nn.Parameter(_raw(parametrisation.delta_of, tau, means[0]))
        sizes = torch.tensor([mean.numel() for mean in means], device=means[0].device)
        self.register_buffer("sizes", sizes, persistent=False)

    def laws(self, means: Sequence[Tensor]) -> list[Law]:
        taus = parametrisation.tau_of(_single(self.delta)).unbind()
        return [
            FactorisedNormal(mean, tau.to(mean) * mean.abs(), validate_args=False)
            for mean, tau in zip(means, taus, strict=True)
        ]

    def divergence(self, means: Sequence[Tensor], priors: Sequence[Normal]) -> Tensor:
        """Equation (30) for all tensors at once: two sums a tensor, and what depends on τ and ρ as vectors.

        The same number as the registered divergences give one by one, for a third of the operations.
        """
        sums = [multiplicative_sums(mean, prior) for mean, prior in zip(means, priors, strict=True)]
        fixed, relative = torch.stack([pair.to(self.delta.device) for pair in sums]).unbind(-1)  # (T,) each
        tau, sizes = parametrisation.tau_of(_single(self.delta)).to(fixed), self.sizes.to(fixed)
        return (
            0.5 * (fixed + tau.square() * relative - sizes * (1 + 2 * tau.log()) - self._log_determinant(sizes)).sum()
        )

    def raw_pair(self) -> tuple[Tensor, Tensor] | None:
        return self.delta, torch.zeros_like(self.delta, requires_grad=False)

    def _log_determinant(self, sizes: Tensor) -> Tensor:
        """ln det T of each tensor: independent noise has none."""
        return torch.zeros_like(sizes)

    def relative_scale(self, index: int, mean: Tensor) -> Tensor:
        del mean
        return parametrisation.tau_of(self.delta[index])

    def correlation_of(self, index: int) -> Tensor:
        return torch.zeros_like(self.delta[index])

    def scale_parameters(self) -> list[nn.Parameter]:
        return [self.delta]

    def stabilise_(self, rule: Rule, generator: torch.Generator | None = None) -> None:
        del generator
        guard_delta_(self.delta, rule)


class Tridiagonal(Diagonal):
    """The paper's family: as `Diagonal`, with one correlation ρ between neighbours a tensor."""

    correlated = True

    def __init__(self, means: Sequence[Tensor], tau: Sequence[float], rho: Sequence[float]) -> None:
        super().__init__(means, tau, rho)
        self.gamma = nn.Parameter(_raw(parametrisation.gamma_of, rho, means[0]))

    def laws(self, means: Sequence[Tensor]) -> list[Law]:
        if self.delta.is_cpu:  # there a draw reads its two numbers; elsewhere they are computed for all tensors at once
            raw = zip(_single(self.delta).unbind(), _single(self.gamma).unbind(), strict=True)
            return [
                TridiagonalNormal.from_raw(mean, delta.to(mean), gamma.to(mean))
                for mean, (delta, gamma) in zip(means, raw, strict=True)
            ]
        tau = parametrisation.tau_of(_single(self.delta))
        coefficient = parametrisation.coefficient_of(_single(self.gamma))
        columns = (tau, coefficient, *correlation.mixing(coefficient, tau))
        return [
            TridiagonalNormal.from_scalars(mean, *(scalar.to(mean) for scalar in scalars))
            for mean, *scalars in zip(means, *(column.unbind() for column in columns), strict=True)
        ]

    def raw_pair(self) -> tuple[Tensor, Tensor] | None:
        return self.delta, self.gamma

    def _log_determinant(self, sizes: Tensor) -> Tensor:
        coefficient = parametrisation.coefficient_of(_single(self.gamma)).to(sizes)
        return correlation.log_determinant(coefficient, sizes)

    def correlation_of(self, index: int) -> Tensor:
        return parametrisation.rho_of(self.gamma[index])

    def correlation_parameters(self) -> list[nn.Parameter]:
        return [self.gamma]

    def stabilise_(self, rule: Rule, generator: torch.Generator | None = None) -> None:
        super().stabilise_(rule, generator)
        guard_gamma_(self.gamma, rule, generator)


class MeanField(Family):
    """w_i = m_i + softplus(s_i) x_i with a free s_i a weight (Blundell et al. 2015): twice the parameters.

    Starts at a standard deviation of τ times the root mean square of the tensor (at least 1e-3 for it).
    """

    multiplicative = False
    correlated = False

    def __init__(self, means: Sequence[Tensor], tau: Sequence[float], rho: Sequence[float]) -> None:
        nn.Module.__init__(self)
        del rho
        self.raw_scale = nn.ParameterList(_initial_scale(mean, factor) for mean, factor in zip(means, tau, strict=True))

    def laws(self, means: Sequence[Tensor]) -> list[Law]:
        scales = self._all_scales().split([len(mean) for mean in means])
        return [
            FactorisedNormal(mean, scale.to(mean), validate_args=False)
            for mean, scale in zip(means, scales, strict=True)
        ]

    def divergence(self, means: Sequence[Tensor], priors: Sequence[Normal]) -> Tensor:
        """Σ ½ (s² + (m − μ)²)/ζ² − ½ − ln(s/ζ) over the weights of all tensors at once: fewer launches on a GPU."""
        mean = _joined(means)
        loc, zeta = (
            _joined([value.expand(len(flat)) for value, flat in zip(values, means, strict=True)]).to(mean)
            for values in ([prior.loc for prior in priors], [prior.scale for prior in priors])
        )
        ratio = self._all_scales().to(mean) / zeta
        distance = (mean - loc) / zeta
        return (0.5 * (ratio.square() + distance.square()) - ratio.log()).sum() - 0.5 * mean.numel()

    def relative_scale(self, index: int, mean: Tensor) -> Tensor:
        return self._scale(index, mean).norm() / mean.norm()

    def correlation_of(self, index: int) -> Tensor:
        return torch.zeros((), device=self.raw_scale[index].device)

    def scale_parameters(self) -> list[nn.Parameter]:
        return list(self.raw_scale)

    def stabilise_(self, rule: Rule, generator: torch.Generator | None = None) -> None:
        del generator
        for raw in self.raw_scale:
            guard_delta_(raw, rule)

    def _all_scales(self) -> Tensor:
        """s of all tensors, end to end."""
        return parametrisation.tau_of(_joined([raw.reshape(-1) for raw in self.raw_scale]))

    def _scale(self, index: int, mean: Tensor) -> Tensor:
        return parametrisation.tau_of(self.raw_scale[index].reshape(-1).to(mean.dtype))


FAMILIES: dict[str, type[Family]] = {
    "tridiagonal": Tridiagonal,
    "diagonal": Diagonal,
    "mean_field": MeanField,
}


def family_of(family: str | type[Family]) -> type[Family]:
    """The class for a name; a class of your own as it is."""
    if isinstance(family, str):
        if family not in FAMILIES:
            raise refusal("family", family, f"be one of {sorted(FAMILIES)}", "correct the word")
        return FAMILIES[family]
    if isinstance(family, type) and issubclass(family, Family):
        return family
    raise wrong_type("family", family, "be a name or a subclass of tribayes.posterior.Family", "pass a name")


def _raw(inverse: Callable[[Tensor], Tensor], values: Sequence[float], like: Tensor) -> Tensor:
    """Initial values through the inverse parametrisation, computed in float64 and kept at least in float32."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    raw = inverse(torch.tensor(values, dtype=torch.float64))
    return raw.to(dtype=dtype, device=like.device)


def _single(raw: Tensor) -> Tensor:
    """At least float32: the law's arithmetic is not done in half precision."""
    return raw.to(torch.promote_types(raw.dtype, torch.float32))


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """Flat tensors end to end, on the first one's device and at least in float32."""
    return _single(torch.cat([part.to(parts[0].device) for part in parts]))


def _initial_scale(mean: Tensor, tau: float) -> nn.Parameter:
    magnitude = mean.detach().square().mean().sqrt().clamp(min=_SMALLEST_SCALE)
    scale = (tau * magnitude).to(torch.float64)
    raw = parametrisation.delta_of(scale).to(mean.dtype)
    return nn.Parameter(torch.full_like(mean, float(raw), requires_grad=True))
