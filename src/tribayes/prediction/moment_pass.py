"""Predicting without drawing networks: one pass by moments, then points of the Gaussian it ends in.

The points are quasi-random (a scrambled Sobol sequence through the normal quantile function) with their mirror images,
scaled to unit variance. So their mean and each output's variance are exact, and a quantile of one output is within
three cells of 1/256 of its probability. The same points serve every example.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from tribayes._progress import Advance
from tribayes.inference.likelihood import Likelihood
from tribayes.nn.stage import restricted
from tribayes.nn.standin import stand_ins
from tribayes.nn.twin import is_compiled
from tribayes.posterior.streams import Stream
from tribayes.prediction.inputs import Batch
from tribayes.prediction.moments import MomentTensor, MomentWeight
from tribayes.prediction.sampled import Respondent

_SMALLEST = 2.0**-31  # Sobol points have 30 bits; half a cell off 0 and 1 the quantile function is finite


class MomentPass(Respondent):
    """Answers at the points of a Gaussian, in place of sampled networks."""

    def __init__(self, model: nn.Module, likelihood: Likelihood, seed: int, where: str | Sequence[str] | None) -> None:
        plain = model.get_submodule("_orig_mod") if is_compiled(model) else model  # moments are unknown to a compiler
        super().__init__(plain, likelihood, seed, where)

    def rows(self, chunk: Sequence[Batch], indices: range, advance: Advance) -> Iterator[Tensor]:
        """(S, n, C), one row: the responses at S points of the outputs' Gaussian."""
        parts = []
        for batch in chunk:
            parts.append(self._answers(self.output_moments(batch), len(indices)))
            advance(len(batch[0]) * len(indices))
        yield torch.cat(parts, dim=1)

    def output_moments(self, batch: Batch) -> MomentTensor:
        """Mean and covariance of the network's outputs; a variance of zero where no random weight reaches them."""
        # squares of small scales do not survive half precision
        with torch.autocast(batch[0].device.type, enabled=False):
            outputs = self.outputs(restricted(stand_ins(self.model, MomentWeight.of), self.only), batch)
        if isinstance(outputs, MomentTensor):
            return outputs
        fixed = outputs.float() if outputs.dtype.itemsize < 4 else outputs
        return MomentTensor.of(fixed, torch.zeros_like(fixed))

    def _answers(self, outputs: MomentTensor, count: int) -> Tensor:
        mean = outputs.expected.reshape(len(outputs), -1)
        points = gaussian_points(mean, outputs.covariance(), count, self.seed)  # (S, n, D)
        answers = self.likelihood.response(points.reshape(-1, *outputs.shape[1:]))
        return answers.unflatten(0, points.shape[:2])


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

    A covariance may be singular: its diagonal grows by a few roundings of that dtype.

    >>> points = gaussian_points(torch.tensor([[1.0, 2.0]]), torch.eye(2).unsqueeze(0), count=512, seed=0)
    >>> points.shape, points.mean(0)
    (torch.Size([512, 1, 2]), tensor([[1., 2.]]))
    """
    covariance = covariance.double()
    variances = covariance.diagonal(dim1=-2, dim2=-1)
    slack = 100 * torch.finfo(mean.dtype).eps * variances.amax(-1, keepdim=True) + torch.finfo(torch.float64).tiny
    root = torch.linalg.cholesky(covariance.diagonal_scatter(variances + slack, dim1=-2, dim2=-1))
    points = normal_points(count, mean.shape[1], seed).to(mean.device)
    return (mean.double() + torch.einsum("ncd,sd->snc", root, points)).to(mean.dtype)
