"""Independent Gaussians with a scale each: what the correlated law is compared with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Independent, Normal

from tribayes.posterior.streams import Randomness, generator_of, standard_normals


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

    def rsample(self, sample_shape: Any = (), generator: Randomness = None) -> Tensor:
        """Draws of shape sample_shape + (..., K), differentiable in loc and scale."""
        loc, scale = self.base_dist.loc, self.base_dist.scale
        shape = torch.Size(sample_shape) + loc.shape
        normals = standard_normals(shape, loc, generator_of(generator, loc.device))
        return torch.addcmul(loc, scale, normals)
