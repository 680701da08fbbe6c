"""Laws w = m + τ|m| ε whose noise ε ~ N(0, R) is correlated in other ways than the paper's, in O(K) each.

| structure | R | ln det R |
| --- | --- | --- |
| `Neighbours` | the paper's T(ρ) along the flat tensor, or along a fixed random order of it | (correlation.py) |
| `Separable` | T(ρ_h) ⊗ T(ρ_w) inside each kernel, nothing between kernels | of both factors |
| `Along` | I + (s² − 1) u uᵀ in each group of weights, u a unit vector: noise along u is s times the other | 2 G ln s |

u of `Along` is |m| of the group, so that s < 1 takes the noise out of the group's answer to a constant input; or
|m| E[x], the same for the mean input. 1 − s² is the κ of "noise without the mean".
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from tribayes.posterior import correlation
from tribayes.posterior.streams import Randomness, normals_from


class Structure(ABC):
    """R of one tensor: how unit noise is made of standard normals."""

    normals: int  # how many it takes

    @abstractmethod
    def noise(self, normals: Tensor) -> Tensor:
        """(..., normals) → ε (..., K)."""

    @abstractmethod
    def log_determinant(self) -> Tensor:
        """ln det R."""

    def variances(self) -> Tensor:
        """The diagonal of R: () or (K,)."""
        return torch.ones(())


class Neighbours(Structure):
    """T(ρ) with the moving-average coefficient t; `places` says where in the order each weight stands."""

    def __init__(self, coefficient: Tensor, size: int, places: Tensor | None = None) -> None:
        self.coefficient, self.size, self.places = coefficient, size, places
        self.normals = size + 1

    def noise(self, normals: Tensor) -> Tensor:
        found = correlation.correlate(normals, *correlation.mixing(self.coefficient))
        return found if self.places is None else found[..., self.places]

    def log_determinant(self) -> Tensor:
        return correlation.log_determinant(self.coefficient, self.size)


class Separable(Structure):
    """T(ρ_h) ⊗ T(ρ_w) over the last two axes of (G, H, W); of (G, 1, W) only the second counts."""

    def __init__(self, coefficients: tuple[Tensor, Tensor], shape: tuple[int, int, int]) -> None:
        self.coefficients, self.shape = coefficients, shape
        groups, height, width = shape
        self.normals = groups * (height + 1) * (width + 1)

    def noise(self, normals: Tensor) -> Tensor:
        groups, height, width = self.shape
        down, across = (correlation.mixing(one) for one in self.coefficients)
        grid = normals.unflatten(-1, (groups, height + 1, width + 1))
        mixed = correlation.correlate(correlation.correlate(grid, *across).mT, *down).mT
        return mixed.flatten(-3)

    def log_determinant(self) -> Tensor:
        groups, height, width = self.shape
        down, across = self.coefficients
        each = width * correlation.log_determinant(down, height) + height * correlation.log_determinant(across, width)
        return groups * each


class Along(Structure):
    """I + (s² − 1) u uᵀ in each group; `directions` are (G, n), each made a unit vector here."""

    def __init__(self, log_scale: Tensor, directions: Tensor) -> None:
        self.log_scale = log_scale
        self.units = torch.nn.functional.normalize(directions, dim=-1)
        self.normals = directions.numel()

    def noise(self, normals: Tensor) -> Tensor:
        grid = normals.unflatten(-1, self.units.shape)
        along = (grid * self.units).sum(-1, keepdim=True)
        return (grid + torch.expm1(self.log_scale) * along * self.units).flatten(-2)

    def log_determinant(self) -> Tensor:
        return 2 * len(self.units) * self.log_scale

    def variances(self) -> Tensor:
        return (1 + torch.expm1(2 * self.log_scale) * self.units.square()).flatten()


class Multiplicative(Distribution):
    """N(m, τ² diag|m| R diag|m|) over (K,)."""

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012 - torch declares it as an instance attribute
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Tensor, tau: Tensor, structure: Structure) -> None:
        self.loc, self.tau, self.structure = loc, tau, structure
        super().__init__(torch.Size(), loc.shape, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.tau.square() * self.loc.square() * self.structure.variances()

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def rsample(self, sample_shape: Sequence[int] = (), generator: Randomness = None) -> Tensor:
        shape = torch.Size((*sample_shape, self.structure.normals))
        return self.loc + self.tau * self.loc.abs() * self.structure.noise(normals_from(generator, shape, self.loc))

    def entropy(self) -> Tensor:
        scales = 2 * len(self.loc) * self.tau.log() + 2 * self.loc.abs().log().sum()
        constant = len(self.loc) * (1 + math.log(2 * math.pi))
        return 0.5 * (constant + scales + self.structure.log_determinant())

    def relative_divergence(self) -> Tensor:
        """KL to the best scale for each weight: ½ Σ ln(R_ii + 1/τ²) − ½ ln det R. It has no m but those in u."""
        each = torch.log(self.structure.variances() + self.tau.pow(-2))
        return 0.5 * (each.expand(len(self.loc)).sum() - self.structure.log_determinant())
