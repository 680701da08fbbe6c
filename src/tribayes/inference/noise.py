"""How observations scatter about what a network says: the law of the one, given the other.

A prediction of values is a mixture over networks, (1/S) Σ_s p(y | what network s said). Intervals, densities and the
split into what the weights do not know and what no data would settle follow from p alone, so a likelihood of values
has to name nothing else: a `Noise`, whose parameters are plain numbers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Protocol, Self

import torch
from torch import Tensor

from tribayes.inference.student import student_cdf

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


class NoiseLaw(Protocol):
    """What is asked of the law of an observation; a `torch.distributions.Distribution` with a `cdf` has it all."""

    @property
    def mean(self) -> Tensor: ...

    @property
    def stddev(self) -> Tensor: ...

    def log_prob(self, value: Tensor) -> Tensor: ...

    def cdf(self, value: Tensor) -> Tensor: ...


class Averages(NamedTuple):
    """Over networks, of each number that they said."""

    mean: Tensor
    square: Tensor  # the mean of its square


@dataclass(frozen=True)
class Noise(ABC):
    """Base of the noises: frozen dataclasses of plain numbers, so that they can be compared, and sent to a process.

    Example:
        >>> NormalNoise(scale=0.5).law(torch.zeros(2)).log_prob(torch.tensor([0.0, 0.5]))
        tensor([-0.2258, -0.7258])
    """

    numbers: ClassVar[int] = 1  # that a network says about each value; the first of them is where it lies
    whole: ClassVar[bool] = False  # whether observations are whole numbers
    can_widen: ClassVar[bool] = False  # whether it has a scale that `tribayes.calibrate` may change

    @abstractmethod
    def law(self, said: Tensor) -> NoiseLaw:
        """The law of D values where a network said (…, numbers · D): all places first, then all scales."""

    def widened(self, factor: float) -> Self:
        """The same with its scale times a factor; asked where `can_widen`."""
        raise NotImplementedError(f"{type(self).__name__} says can_widen, and has to say how")

    def mean_variance(self, said: Averages) -> Tensor | None:
        """The variance of the noise on average over networks, from averages of what they said.

        None where these do not determine it: every sample is looked at then.
        """
        del said
        return None


@dataclass(frozen=True)
class _Normal:
    mean: Tensor
    scale: float | Tensor

    @property
    def stddev(self) -> Tensor:
        return self.scale if isinstance(self.scale, Tensor) else torch.full_like(self.mean, self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        size = self.scale.log() if isinstance(self.scale, Tensor) else math.log(self.scale)
        return -0.5 * ((value - self.mean) / self.scale).square() - size - _HALF_LOG_TWO_PI

    def cdf(self, value: Tensor) -> Tensor:
        return torch.special.ndtr((value - self.mean) / self.scale)


@dataclass(frozen=True)
class NormalNoise(Noise):
    """N(f, scale²) about what a network says.

    Example:
        >>> NormalNoise(scale=0.5).widened(2.0)
        NormalNoise(scale=1.0)
    """

    can_widen: ClassVar[bool] = True

    scale: float

    def law(self, said: Tensor) -> NoiseLaw:
        return _Normal(said, self.scale)

    def widened(self, factor: float) -> Self:
        return replace(self, scale=self.scale * factor)

    def mean_variance(self, said: Averages) -> Tensor:
        return torch.full_like(said.mean, self.scale**2)


@dataclass(frozen=True)
class OwnScaleNoise(Noise):
    """N(f, (factor s)²) where a network says both f and s."""

    numbers: ClassVar[int] = 2
    can_widen: ClassVar[bool] = True

    factor: float = 1.0

    def law(self, said: Tensor) -> NoiseLaw:
        places, scales = said.chunk(2, dim=-1)
        return _Normal(places, scales * self.factor)

    def widened(self, factor: float) -> Self:
        return replace(self, factor=self.factor * factor)

    def mean_variance(self, said: Averages) -> Tensor:
        return said.square.chunk(2, dim=-1)[1] * self.factor**2


@dataclass(frozen=True)
class _StudentT:
    mean: Tensor  # the place, which is the mean where there is one
    df: float
    scale: float

    @property
    def stddev(self) -> Tensor:
        """The scale: the standard deviation may be infinite, and all that is wanted of it is a size."""
        return torch.full_like(self.mean, self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        standard = (value - self.mean) / self.scale
        size = math.lgamma((self.df + 1) / 2) - math.lgamma(self.df / 2) - 0.5 * math.log(self.df * math.pi)
        return size - math.log(self.scale) - (self.df + 1) / 2 * torch.log1p(standard.square() / self.df)

    def cdf(self, value: Tensor) -> Tensor:
        return student_cdf((value - self.mean) / self.scale, self.df)


@dataclass(frozen=True)
class StudentTNoise(Noise):
    """f + scale · t, t of Student's law with `df` degrees of freedom: far values are no surprise."""

    can_widen: ClassVar[bool] = True

    df: float
    scale: float

    def law(self, said: Tensor) -> NoiseLaw:
        return _StudentT(said, self.df, self.scale)

    def widened(self, factor: float) -> Self:
        return replace(self, scale=self.scale * factor)

    def mean_variance(self, said: Averages) -> Tensor:
        variance = self.scale**2 * self.df / (self.df - 2) if self.df > 2 else math.inf
        return torch.full_like(said.mean, variance)


@dataclass(frozen=True)
class _Poisson:
    mean: Tensor

    @property
    def stddev(self) -> Tensor:
        return self.mean.sqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        return torch.xlogy(value, self.mean) - self.mean - torch.lgamma(value + 1)

    def cdf(self, value: Tensor) -> Tensor:
        counts = value.floor()
        return torch.special.gammaincc(counts.clamp(min=0) + 1, self.mean).where(counts >= 0, 0.0)


@dataclass(frozen=True)
class PoissonNoise(Noise):
    """Counts, whose mean and variance are the rate that a network says."""

    whole: ClassVar[bool] = True

    def law(self, said: Tensor) -> NoiseLaw:
        return _Poisson(said)

    def mean_variance(self, said: Averages) -> Tensor:
        return said.mean
