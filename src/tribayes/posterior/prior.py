"""Gaussian priors: the paper's, by a mean and a standard deviation (never a variance), and one relative to the weights.

The paper's divergence to N(0, ζ²) pushes every mean towards ±ζ and away from zero. A network whose weights are meant to
be small and many is ruined by that. The relative prior gives each weight the scale that the evidence would choose,

    ζ_i² = E w_i² = (1 + τ²) m_i²,     min over ζ of KL = ½ K ln(1 + 1/τ²) − ½ ln det T(ρ),

which leaves the means alone: their size is the business of the optimizer's weight decay. For ρ = 0 it is the
empirical-Bayes form of variational dropout (Kharitonov, Molchanov & Vetrov 2018).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Normal, kl_divergence

from tribayes._errors import (
    LARGEST_SPREAD,
    SMALLEST_SPREAD,
    SPREAD,
    check_all,
    check_plain,
    check_spread,
    is_number,
    refusal,
    wrong_type,
)

PRETRAINED = "pretrained"

_LOC = "be finite and at most 1e10, since its square is computed with"


@dataclass(frozen=True, eq=False)
class Prior:
    """N(loc, scale²) for every entry of a tensor, independently: μ and ζ of the paper.

    Args:
        loc: a number, a tensor of the weights' shape, or "pretrained": the weights at the time of conversion.
        scale: standard deviation ζ > 0, a number or a tensor of the weights' shape.

    Example:
        >>> Prior(scale=0.1)
        Prior(loc=0.0, scale=0.1)
        >>> prior = Prior(loc="pretrained", scale=0.05)  # stay near what the network has learned elsewhere
    """

    loc: float | Tensor | str = 0.0
    scale: float | Tensor = 1.0

    def __post_init__(self) -> None:
        for field in ("loc", "scale"):
            if isinstance(value := getattr(self, field), Tensor):
                check_plain(field, value)
                if value.dtype == torch.bool:
                    raise wrong_type(field, value, "be real numbers", "pass its .float()")
        if isinstance(self.scale, Tensor):
            legal = torch.isfinite(self.scale) & (self.scale > 0)
            check_all("scale", self.scale, legal, "be finite and positive", "it is a standard deviation")
            legal = (self.scale >= SMALLEST_SPREAD) & (self.scale <= LARGEST_SPREAD)
            check_all("scale", self.scale, legal, SPREAD, "it is a standard deviation")
        else:
            check_spread("scale", self.scale, "it is a standard deviation, such as 1.0")
        if isinstance(self.loc, Tensor):
            legal = self.loc.abs() <= LARGEST_SPREAD  # NaN is not
            check_all("loc", self.loc, legal, _LOC, "check where it was computed")
        elif isinstance(self.loc, str):
            if self.loc != PRETRAINED:
                raise refusal("loc", self.loc, f'be a number, a tensor or "{PRETRAINED}"', "correct the word")
        elif not is_number(self.loc):
            raise wrong_type("loc", self.loc, f'be a number, a tensor or "{PRETRAINED}"', "pass e.g. 0.0")
        elif not abs(self.loc) <= LARGEST_SPREAD:
            raise refusal("loc", self.loc, _LOC, "pass e.g. 0.0")

    def resolve(self, name: str, mean: Tensor) -> TensorPrior:
        """This prior for the tensor called `name`, whose weights now are `mean`."""
        loc = mean.detach().clone() if isinstance(self.loc, str) else self.loc
        return TensorPrior(_fitted(name, "loc", loc, mean), _fitted(name, "scale", self.scale, mean))


@dataclass(frozen=True)
class RelativePrior:
    """N(0, ζ_i²) with the best scale for each weight, ζ_i² = E w_i²: a prior that moves with the weights.

    Only noise is priced, relative to the weight that it is on; a tensor may grow or shrink for free, so give the means
    a weight decay: `tribayes.parameter_groups(model, lr, weight_decay=...)`.

    Example:
        >>> model = tribayes.to_bayesian(nn.Linear(8, 3), prior=RelativePrior(), tau=0.05)
        >>> round(model.kl().item(), 2)  # ½ · 27 weights · ln(1 + 1/0.05²)
        80.92
    """

    def resolve(self, name: str, mean: Tensor) -> BestScale:
        """This prior for any tensor."""
        del name, mean
        return BestScale()


class TensorPrior(nn.Module):
    """A prior fitted to one tensor: `loc` and `scale` as buffers, each a scalar or flat with K entries."""

    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("loc", loc)
        self.register_buffer("scale", scale)

    def distribution(self, dtype: torch.dtype) -> Normal:
        return Normal(self.loc.to(dtype), self.scale.to(dtype), validate_args=False)

    def divergence(self, law: Distribution) -> Tensor:
        """KL(law ‖ p), summed over the tensor."""
        return kl_divergence(law, self.distribution(law.mean.dtype))


class BestScale(nn.Module):
    """The relative prior of one tensor. It follows from the law, so there is nothing to keep."""

    def divergence(self, law: Distribution) -> Tensor:
        """The smallest KL(law ‖ N(0, ζ²)) over a scale for each weight: ½ Σ ln(2πe E w²) − H(law)."""
        if type(law).entropy is Distribution.entropy:  # torch's own, which says nothing
            requirement = f"meet laws with an entropy(), but {type(law).__name__} has none"
            raise refusal("prior", "RelativePrior", requirement, "define it, or pass prior=tb.Prior()")
        second = law.mean.square() + law.variance
        return 0.5 * (second.log() + math.log(2 * math.pi * math.e)).sum() - law.entropy().sum()


AnyPrior = Prior | RelativePrior
AnyTensorPrior = TensorPrior | BestScale


def are_relative(priors: Sequence[AnyTensorPrior]) -> list[bool]:
    """Which of these move with the weights."""
    return [isinstance(prior, BestScale) for prior in priors]


def _fitted(name: str, field: str, value: float | Tensor, mean: Tensor) -> Tensor:
    if not isinstance(value, Tensor):
        return torch.tensor(float(value), dtype=mean.dtype, device=mean.device)
    if value.numel() != 1 and value.shape != mean.shape:
        requirement = f"be a scalar or have the shape {tuple(mean.shape)} of {name!r}"
        remedy = "give each tensor its own prior: prior={'pattern': tb.Prior(...), ...}"
        raise refusal(f"prior.{field}", value, requirement, remedy)
    flat = value.detach().reshape(() if value.numel() == 1 else -1)
    return flat.to(dtype=mean.dtype, device=mean.device).clone()
