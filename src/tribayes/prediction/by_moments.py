"""Predicting without drawing networks: one pass by moments, then points of the Gaussian it ends in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from tribayes._progress import Advance
from tribayes.nn.holding import holding
from tribayes.prediction import moment_rules as _rules  # fills in what the stand-ins know
from tribayes.prediction.gaussian_points import gaussian_points
from tribayes.prediction.inputs import Batch
from tribayes.prediction.job import Job
from tribayes.prediction.moments import Moments, moment_weights

del _rules


class MomentJob(Job):
    """As `Job`, with the points of a Gaussian for the sampled networks."""

    def rows(self, chunk: Sequence[Batch], indices: range, advance: Advance) -> Iterator[Tensor]:
        """(S, n, C), one row: the responses at S points of the outputs' Gaussian."""
        parts = []
        for batch in chunk:
            parts.append(self._answers(self.output_moments(batch), len(indices)))
            advance(len(batch[0]) * len(indices))
        yield torch.cat(parts, dim=1)

    def output_moments(self, batch: Batch) -> Moments:
        """Mean and covariance of the network's outputs; a variance of zero where no random weight reaches them."""
        with holding(self.model, moment_weights(self.model, self.only)), _full_precision(batch):
            outputs = self.outputs(batch)
        if isinstance(outputs, Moments):
            return outputs
        fixed = outputs.float() if outputs.dtype.itemsize < 4 else outputs
        return Moments.of(fixed, torch.zeros_like(fixed))

    def _answers(self, outputs: Moments, count: int) -> Tensor:
        shape = outputs.shape
        mean = outputs.expected.reshape(shape[0], -1)
        points = gaussian_points(mean, outputs.covariance(), count, self.seed)  # (S, n, D)
        return self.likelihood.response(points.reshape(count * shape[0], *shape[1:])).unflatten(0, (count, shape[0]))


def _full_precision(batch: Batch) -> torch.autocast:
    """Squares of small scales do not survive half precision."""
    return torch.autocast(batch[0].device.type, enabled=False)
