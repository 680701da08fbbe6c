"""Laplace's approximation of the last layer, in closed form.

The Hessian of the negative log likelihood in the last layer's weights W (C × D, the bias as a column) is, by Gauss and
Newton, Σ_n φ_n φ_nᵀ ⊗ Λ_n with Λ = diag(p) − p pᵀ. Its Kronecker form (Ritter et al. 2018) is A ⊗ B with A = Σ φ φᵀ and
B the mean of Λ. With A = U a Uᵀ, B = V b Vᵀ and a prior N(0, 1/δ) the logits of an image are normal with covariance

    V diag_j( Σ_i (Uᵀφ)_i² / (a_i b_j + δ) ) Vᵀ,

so that they are drawn exactly, without weights. δ maximises the approximate evidence.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

CANDIDATES = torch.logspace(-4, 6, 201, dtype=torch.float64)  # of δ


@dataclass(frozen=True)
class LastLayer:
    """The approximation: eigenvectors and eigenvalues of both factors, the layer itself, and δ."""

    weights: Tensor  # (C, D + 1)
    inputs: Tensor  # U, (D + 1, D + 1)
    input_values: Tensor  # a
    outputs: Tensor  # V, (C, C)
    output_values: Tensor  # b
    precision: float  # δ

    @classmethod
    @torch.no_grad()
    def fit(cls, head: nn.Linear, features: Iterable[Tensor], precision: float | None = None) -> LastLayer:
        """From the features (N, D) of the training images, in batches; `precision` None chooses δ by the evidence."""
        weights = torch.cat([head.weight, head.bias[:, None]], 1).double()
        first, second = weights.new_zeros((weights.shape[1],) * 2), weights.new_zeros((weights.shape[0],) * 2)
        count = 0
        for batch in features:
            seen = with_one(batch)
            p = (seen @ weights.T).softmax(-1)
            first += seen.T @ seen
            second += p.sum(0).diag() - p.T @ p
            count += len(batch)
        a, u = torch.linalg.eigh(first)
        b, v = torch.linalg.eigh(second / count)
        a, b = a.clamp(min=0), b.clamp(min=0)
        return cls(weights, u, a, v, b, best_precision(weights, a, b) if precision is None else precision)

    @torch.no_grad()
    def sample(self, features: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """(count, N, C): probabilities under that many draws of the layer, images independent of each other."""
        seen = with_one(features)
        spread = 1 / (torch.outer(self.input_values, self.output_values) + self.precision)
        variance = (seen @ self.inputs).square() @ spread
        means = seen @ self.weights.T
        noise = torch.randn(count, *means.shape, generator=generator, device=means.device, dtype=torch.float32)
        return (means + (noise.double() * variance.sqrt()) @ self.outputs.T).softmax(-1).float()


def with_one(features: Tensor) -> Tensor:
    """Features and, for the bias, a column of ones."""
    return torch.cat([features.double(), features.new_ones(len(features), 1).double()], 1)


def best_precision(weights: Tensor, a: Tensor, b: Tensor) -> float:
    """δ that maximises the evidence: −½ [δ ‖W‖² + Σ ln(a_i b_j + δ) − C (D + 1) ln δ], up to a constant."""
    curvature = torch.outer(a, b).flatten()
    candidates = CANDIDATES.to(a.device)
    terms = [delta * weights.square().sum() + torch.log1p(curvature / delta).sum() for delta in candidates]
    return float(candidates[torch.stack(terms).argmin()])
