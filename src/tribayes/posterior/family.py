"""Posterior families: raw parameters for all tensors of a network, and the weights and laws they give.

A family holds what is learned beside the means. The tridiagonal family of the paper has two numbers per tensor, kept
as two vectors with one entry per tensor, so that an optimizer step touches two small arrays and not dozens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from tribayes._errors import refusal, wrong_type
from tribayes.posterior import draw as drawing
from tribayes.posterior import parametrisation
from tribayes.posterior.distributions import FactorisedNormal, TridiagonalNormal, factorised_divergence
from tribayes.posterior.draw import plain
from tribayes.posterior.draw.plain import Count, Means, Priors, WeightsAndKL
from tribayes.posterior.parametrisation import Rule, guard_means_
from tribayes.posterior.prior import AnyTensorPrior, TensorPrior, are_relative
from tribayes.posterior.shards import local, whole
from tribayes.posterior.streams import Randomness, Seeds, without_seeds

Law = TridiagonalNormal | FactorisedNormal

_SMALLEST_SCALE = 1e-3  # start of a mean-field standard deviation where the weights themselves are zero


class Family(nn.Module, ABC):
    """Base of the families. A new one defines `__init__`, `laws` and `scale_parameters`; CONTRIBUTING.md shows one.

    Everywhere `means` are the means of all random tensors, in the network's order. What is learned is an ordinary
    `nn.Parameter` of the family.

    Example:
        >>> class Fixed(Family):  # a standard deviation of τ for every weight, never learned
        ...     def __init__(self, means, tau, rho):
        ...         nn.Module.__init__(self)
        ...         self.tau = tau
        ...     def laws(self, means):
        ...         return [FactorisedNormal(m, torch.full_like(m, t)) for m, t in zip(means, self.tau)]
        ...     def scale_parameters(self):
        ...         return []
        >>> tb.to_bayesian(nn.Linear(3, 2), family=Fixed, tau=0.1).sample_weights(generator=0)["weight"].shape
        torch.Size([2, 3])
    """

    multiplicative: ClassVar[bool] = False  # noise proportional to |m|: the means must then not be zero
    correlated: ClassVar[bool] = False  # whether an initial ρ means anything
    draws_shards: ClassVar[bool] = False  # of a network that processes hold in parts; else it is gathered before
    divergence_without_means: ClassVar[bool] = False  # that from a relative prior: means may then be zero after all

    @abstractmethod
    def __init__(self, means: Means, tau: Sequence[float], rho: Sequence[float]) -> None:
        """From the means and the initial τ and ρ of each tensor; call `nn.Module.__init__(self)` first."""

    @abstractmethod
    def laws(self, means: Means) -> list[Law]:
        """The distribution of each tensor, given its flat means (K,), at least in float32.

        A torch distribution over (K,) with `mean`, `variance`, `rsample(sample_shape, generator)` and a divergence from
        `Normal` registered with torch; for `RelativePrior` also `entropy()`.
        """

    @abstractmethod
    def scale_parameters(self) -> list[nn.Parameter]:
        """What is learned about scales."""

    def correlation_parameters(self) -> list[nn.Parameter]:
        """What is learned about correlations."""
        return []

    def draw(
        self, means: Means, randomness: Seeds = None, *, count: Count = None, priors: Priors = None
    ) -> WeightsAndKL:
        """One draw of every tensor in its shape and dtype (`count` of them stacked), and KL(q ‖ p) where asked for."""
        sources = plain.sources_of(means, without_seeds(randomness))
        laws = self.laws([plain.flat(mean) for mean in means])
        rounds = [
            [
                law.rsample(torch.Size(), sources[mean.device]).reshape(mean.shape).to(mean.dtype)
                for law, mean in zip(laws, means, strict=True)
            ]
            for _ in range(count or 1)  # so that the first of many is the draw alone
        ]
        weights = rounds[0] if count is None else [torch.stack(column) for column in zip(*rounds, strict=True)]
        return weights, None if priors is None else self.divergence(means, priors)

    def divergence(self, means: Means, priors: Sequence[AnyTensorPrior]) -> Tensor:
        """KL(q ‖ p) in nats, summed over all tensors."""
        laws = self.laws([plain.flat(mean) for mean in means])
        terms = [prior.divergence(law) for law, prior in zip(laws, priors, strict=True)]
        return torch.stack([term.to(terms[0].device) for term in terms]).sum()

    def sampler(self, means: Means) -> str:
        """Which implementation draws: "triton", "cpu", "sharded" or "plain"."""
        del means
        return drawing.PLAIN

    def rescale_(self, factor: float) -> None:
        """Multiply every standard deviation, in place: what `tribayes.calibrate` does."""
        del factor
        name = type(self).__name__
        raise refusal("family", name, "know how to widen itself", f"define {name}.rescale_(factor)")

    @torch.no_grad()
    def describe(self, means: Means) -> list[tuple[float, float]]:
        """(τ, ρ) of each tensor; τ is the standard deviation relative to |m| (root mean square where it varies)."""
        rows = [plain.flat(mean) for mean in means]
        return [(float(law.stddev.norm() / row.norm()), 0.0) for law, row in zip(self.laws(rows), rows, strict=True)]

    def stabilise_(self, means: Means, rule: Rule, randomness: Randomness = None) -> None:
        """Apply the guards in place, to raw parameters and to `means`: those that must not be zero."""
        if self.multiplicative:
            parts = [local(mean) for mean in means]
            guard_means_(parts, rule, plain.sources_of(parts, randomness))


class Diagonal(Family):
    """w_i = m_i + τ|m_i| x_i with one τ per tensor: the earlier model of Posch et al. (2019).

    Example:
        >>> Diagonal([torch.ones(4)], tau=[0.1], rho=[0.0]).laws([torch.tensor([1.0, -2.0])])[0].stddev
        tensor([0.1000, 0.2000], grad_fn=<...>)
    """

    multiplicative = True
    draws_shards = True
    divergence_without_means = True

    def __init__(self, means: Means, tau: Sequence[float], rho: Sequence[float]) -> None:
        nn.Module.__init__(self)
        del rho
        self.delta = nn.Parameter(_raw(parametrisation.delta_of, tau, means[0]))
        self._implementation: str | None = None  # set by tests, to compare implementations

    def _raw_correlation(self) -> Tensor:
        return torch.zeros_like(self.delta, requires_grad=False)

    def laws(self, means: Means) -> list[Law]:
        taus = parametrisation.tau_of(plain.single(whole(self.delta))).unbind()
        return [
            FactorisedNormal(mean, tau.to(mean) * mean.abs(), validate_args=False)
            for mean, tau in zip(means, taus, strict=True)
        ]

    def draw(
        self, means: Means, randomness: Seeds = None, *, count: Count = None, priors: Priors = None
    ) -> WeightsAndKL:
        return drawing.draw(means, self.delta, self._raw_correlation(), randomness, count, priors, self._implementation)

    def divergence(self, means: Means, priors: Sequence[AnyTensorPrior]) -> Tensor:
        return drawing.divergence_of(means, self.delta, self._raw_correlation(), priors)

    def sampler(self, means: Means) -> str:
        return self._implementation or drawing.implementation_for(means, self.delta, self.delta)

    def describe(self, means: Means) -> list[tuple[float, float]]:
        del means
        raw = whole(self.delta), whole(self._raw_correlation())
        columns = parametrisation.tau_of(raw[0]), parametrisation.rho_of(raw[1])
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def scale_parameters(self) -> list[nn.Parameter]:
        return [self.delta]

    def rescale_(self, factor: float) -> None:
        parametrisation.rescale_(self.delta, factor)

    def stabilise_(self, means: Means, rule: Rule, randomness: Randomness = None) -> None:
        gamma = next(iter(self.correlation_parameters()), None)
        drawing.guard_(means, self.delta, gamma, rule, randomness, self._implementation)


class Tridiagonal(Diagonal):
    """The paper's family: as `Diagonal`, with one correlation ρ between neighbours per tensor.

    Example:
        >>> law = Tridiagonal([torch.ones(3)], tau=[0.1], rho=[0.4]).laws([torch.ones(3)])[0]
        >>> law.covariance_matrix.detach()
        tensor([[0.0100, 0.0040, 0.0000],
                [0.0040, 0.0100, 0.0040],
                [0.0000, 0.0040, 0.0100]])
    """

    correlated = True

    def __init__(self, means: Means, tau: Sequence[float], rho: Sequence[float]) -> None:
        super().__init__(means, tau, rho)
        self.gamma = nn.Parameter(_raw(parametrisation.gamma_of, rho, means[0]))

    def _raw_correlation(self) -> Tensor:
        return self.gamma

    def laws(self, means: Means) -> list[Law]:
        tau, gamma = parametrisation.tau_of(plain.single(whole(self.delta))), plain.single(whole(self.gamma))
        columns = tau, parametrisation.rho_of(gamma), parametrisation.coefficient_of(gamma)
        numbers = zip(means, *(column.unbind() for column in columns), strict=True)
        return [
            TridiagonalNormal(mean, tau.to(mean), rho.to(mean), validate_args=False, coefficient=t.to(mean))
            for mean, tau, rho, t in numbers
        ]

    def correlation_parameters(self) -> list[nn.Parameter]:
        return [self.gamma]


class MeanField(Family):
    """w_i = m_i + softplus(s_i) x_i with a free s_i per weight (Blundell et al. 2015): twice the parameters.

    Starts at a standard deviation of τ times the root mean square of the tensor (at least 1e-3 for it).

    Example:
        >>> model = tb.to_bayesian(nn.Linear(3, 2), family="mean_field")
        >>> [tuple(scale.shape) for scale in model.family.scale_parameters()]
        [(2, 3), (2,)]
    """

    def __init__(self, means: Means, tau: Sequence[float], rho: Sequence[float]) -> None:
        nn.Module.__init__(self)
        del rho
        self.raw_scale = nn.ParameterList(_initial_scale(mean, factor) for mean, factor in zip(means, tau, strict=True))

    def laws(self, means: Means) -> list[Law]:
        scales = self._all_scales().split([len(mean) for mean in means])
        return [
            FactorisedNormal(mean, scale.to(mean), validate_args=False)
            for mean, scale in zip(means, scales, strict=True)
        ]

    def divergence(self, means: Means, priors: Sequence[AnyTensorPrior]) -> Tensor:
        """Over the weights of all tensors at once, where their priors are of one kind: fewer launches on a GPU."""
        relative = are_relative(priors)
        if any(relative) and not all(relative):
            return super().divergence(means, priors)
        rows = [plain.flat(mean) for mean in means]
        if all(relative):  # ½ Σ ln(1 + m²/s²)
            mean = _joined(rows)
            return 0.5 * (mean / self._all_scales().to(mean)).square().log1p().sum()
        normals = [cast(TensorPrior, prior).distribution(row.dtype) for prior, row in zip(priors, rows, strict=True)]
        loc, zeta = (
            _joined([value.expand(len(row)) for value, row in zip(values, rows, strict=True)])
            for values in ([prior.loc for prior in normals], [prior.scale for prior in normals])
        )
        mean = _joined(rows)
        return factorised_divergence(mean, self._all_scales().to(mean), loc.to(mean), zeta.to(mean)).sum()

    def scale_parameters(self) -> list[nn.Parameter]:
        return list(self.raw_scale)

    def rescale_(self, factor: float) -> None:
        for raw in self.raw_scale:
            parametrisation.rescale_(raw, factor)

    def stabilise_(self, means: Means, rule: Rule, randomness: Randomness = None) -> None:
        del means, randomness
        for raw in self.raw_scale:
            raw.clamp_(min=rule.smallest_delta)

    def _all_scales(self) -> Tensor:
        """s of all tensors, end to end."""
        return parametrisation.tau_of(_joined([plain.flat(raw) for raw in self.raw_scale]))


FAMILIES: dict[str, type[Family]] = {"tridiagonal": Tridiagonal, "diagonal": Diagonal, "mean_field": MeanField}
"""The families that `to_bayesian(net, family=...)` knows by a name."""


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
    raw = inverse(torch.tensor(values, dtype=torch.float64, device="cpu"))
    return raw.to(dtype=dtype, device=like.device)


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """Flat tensors end to end, on the first one's device and at least in float32."""
    return plain.single(torch.cat([part.to(parts[0].device) for part in parts]))


def _initial_scale(mean: Tensor, tau: float) -> nn.Parameter:
    magnitude = mean.detach().square().mean().sqrt().clamp(min=_SMALLEST_SCALE)
    scale = (tau * magnitude).to(torch.float64)
    raw = parametrisation.delta_of(scale).to(mean.dtype)
    return nn.Parameter(torch.full_like(mean, float(raw), requires_grad=True))
