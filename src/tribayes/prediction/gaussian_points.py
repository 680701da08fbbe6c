"""A fixed set of points that stands for a Gaussian: what turns moments of the outputs into probabilities and intervals.

The points are quasi-random (a scrambled Sobol sequence through the normal quantile function) with their mirror images,
scaled to unit variance. So their mean and each output's variance are exact, and a quantile of one output is within
three cells of 1/256 of its probability. The same points serve every example.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tribayes.posterior.streams import Stream

POINTS = 512

_SMALLEST = 2.0**-31  # Sobol points have 30 bits; half a cell off 0 and 1 the quantile function is finite


def normal_points(count: int, dimension: int, seed: int) -> Tensor:
    """(count, dimension), float64: mean 0, variance 1 in every dimension. `count` is even.

    >>> points = normal_points(512, dimension=3, seed=0)
    >>> points.shape, points.mean(0).abs().max().item() < 1e-12
    (torch.Size([512, 3]), True)
    """
    engine = torch.quasirandom.SobolEngine(dimension, scramble=True, seed=Stream((seed,)).number)
    uniform = engine.draw(count // 2, dtype=torch.float64).clamp(_SMALLEST, 1 - _SMALLEST)
    normals = torch.special.ndtri(uniform)
    points = torch.cat([normals, -normals])
    return points / points.std(0)


def gaussian_points(mean: Tensor, covariance: Tensor, count: int, seed: int) -> Tensor:
    """(count, N, D): points for N Gaussians with means (N, D) and covariances (N, D, D), in the means' dtype.

    >>> points = gaussian_points(torch.tensor([[1.0, 2.0]]), torch.eye(2).unsqueeze(0), count=512, seed=0)
    >>> points.shape, points.mean(0)
    (torch.Size([512, 1, 2]), tensor([[1., 2.]]))
    """
    points = normal_points(count, mean.shape[1], seed).to(mean.device)
    drawn = mean.double() + torch.einsum("ncd,sd->snc", _root(covariance, mean.dtype), points)
    return drawn.to(mean.dtype)


def _root(covariance: Tensor, dtype: torch.dtype) -> Tensor:
    """The Cholesky factor, also where a covariance is singular: its diagonal grows by a few roundings of `dtype`."""
    covariance = covariance.double()
    variances = covariance.diagonal(dim1=-2, dim2=-1)
    slack = 100 * torch.finfo(dtype).eps * variances.amax(-1, keepdim=True) + torch.finfo(torch.float64).tiny
    factor: Tensor = torch.linalg.cholesky(covariance.diagonal_scatter(variances + slack, dim1=-2, dim2=-1))
    return factor
