"""The law: raw parameters → (τ, ρ) → distribution → draws and divergence."""

from tribayes.posterior import divergence as _divergence  # registers the divergences with torch
from tribayes.posterior.factorised import FactorisedNormal
from tribayes.posterior.family import FAMILIES, Diagonal, Family, MeanField, Tridiagonal
from tribayes.posterior.prior import Prior
from tribayes.posterior.tridiagonal import TridiagonalNormal

__all__ = [
    "FAMILIES",
    "Diagonal",
    "FactorisedNormal",
    "Family",
    "MeanField",
    "Prior",
    "Tridiagonal",
    "TridiagonalNormal",
]

del _divergence
