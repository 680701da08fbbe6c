"""The law: raw parameters → (τ, ρ) → distribution → draws and divergence."""

from tribayes.posterior.factorised import FactorisedNormal
from tribayes.posterior.family import FAMILIES, Diagonal, Family, MeanField, Tridiagonal
from tribayes.posterior.prior import Prior
from tribayes.posterior.streams import Stream
from tribayes.posterior.tridiagonal import TridiagonalNormal

__all__ = [
    "FAMILIES",
    "Diagonal",
    "FactorisedNormal",
    "Family",
    "MeanField",
    "Prior",
    "Stream",
    "Tridiagonal",
    "TridiagonalNormal",
]
