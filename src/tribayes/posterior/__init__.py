"""The law: raw parameters → (τ, ρ) → distribution → draws and divergence."""

from tribayes.posterior.distributions import FactorisedNormal, TridiagonalNormal
from tribayes.posterior.family import FAMILIES, Diagonal, Family, MeanField, Tridiagonal
from tribayes.posterior.prior import Prior, RelativePrior
from tribayes.posterior.streams import Stream

__all__ = [
    "FAMILIES",
    "Diagonal",
    "FactorisedNormal",
    "Family",
    "MeanField",
    "Prior",
    "RelativePrior",
    "Stream",
    "Tridiagonal",
    "TridiagonalNormal",
]
