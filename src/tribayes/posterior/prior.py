"""The Gaussian prior of one tensor: a mean and a standard deviation (never a variance)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributions import Normal

from tribayes._errors import check_all, check_positive, is_number, refusal, wrong_type

PRETRAINED = "pretrained"


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
        if isinstance(self.scale, Tensor):
            legal = torch.isfinite(self.scale) & (self.scale > 0)
            check_all("scale", self.scale, legal, "be finite and positive", "it is a standard deviation")
        else:
            check_positive("scale", self.scale, "it is a standard deviation, such as 1.0")
        if isinstance(self.loc, Tensor):
            check_all("loc", self.loc, torch.isfinite(self.loc), "be finite", "check where it was computed")
        elif isinstance(self.loc, str):
            if self.loc != PRETRAINED:
                raise refusal("loc", self.loc, f'be a number, a tensor or "{PRETRAINED}"', "correct the word")
        elif not is_number(self.loc):
            raise wrong_type("loc", self.loc, f'be a number, a tensor or "{PRETRAINED}"', "pass e.g. 0.0")
        elif not math.isfinite(self.loc):
            raise refusal("loc", self.loc, "be finite", "pass e.g. 0.0")

    def resolve(self, name: str, mean: Tensor) -> TensorPrior:
        """This prior for the tensor called `name`, whose weights now are `mean`."""
        loc = mean.detach().clone() if isinstance(self.loc, str) else self.loc
        return TensorPrior(_fitted(name, "loc", loc, mean), _fitted(name, "scale", self.scale, mean))


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


def _fitted(name: str, field: str, value: float | Tensor, mean: Tensor) -> Tensor:
    if not isinstance(value, Tensor):
        return torch.tensor(float(value), dtype=mean.dtype, device=mean.device)
    if value.numel() != 1 and value.shape != mean.shape:
        requirement = f"be a scalar or have the shape {tuple(mean.shape)} of {name!r}"
        remedy = "give each tensor its own prior: prior={'pattern': tb.Prior(...), ...}"
        raise refusal(f"prior.{field}", value, requirement, remedy)
    flat = value.detach().reshape(() if value.numel() == 1 else -1)
    return flat.to(dtype=mean.dtype, device=mean.device).clone()
