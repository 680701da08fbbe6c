"""Predicting without drawing networks: one pass by moments, then points of the Gaussian it ends in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from tribayes._progress import Advance
from tribayes.prediction import moment_rules as _rules  # fills in what the stand-ins know
from tribayes.prediction.gaussian_points import gaussian_points
from tribayes.prediction.inputs import Batch
from tribayes.prediction.moments import MomentTensor, moment_weights
from tribayes.prediction.sampled import Respondent

del _rules


class MomentPass(Respondent):
    """Answers at the points of a Gaussian, in place of sampled networks."""

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
            outputs = self.outputs(moment_weights(self.model, self.only), batch)
        if isinstance(outputs, MomentTensor):
            return outputs
        fixed = outputs.float() if outputs.dtype.itemsize < 4 else outputs
        return MomentTensor.of(fixed, torch.zeros_like(fixed))

    def _answers(self, outputs: MomentTensor, count: int) -> Tensor:
        shape = outputs.shape
        mean = outputs.expected.reshape(shape[0], -1)
        points = gaussian_points(mean, outputs.covariance(), count, self.seed)  # (S, n, D)
        return self.likelihood.response(points.reshape(count * shape[0], *shape[1:])).unflatten(0, (count, shape[0]))
