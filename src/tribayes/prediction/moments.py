"""Mean and variance in place of numbers: what a network computes when it is given these (`samples=tb.Moments()`).

A network runs once, on `MomentTensor`: for every unit an expectation and a variance over the posterior. Assumed is:

- Linear layers and convolutions: exact, for the given law of the weights with its neighbour correlation
  (nn/preactivation.py) and for independent inputs with the given means and variances:

      E y = Σ m_i E x_i,     Var y = Σ [s_i² (E x_i)² + (m_i² + s_i²) Var x_i] + 2ρ Σ s_i s_{i+1} E x_i E x_{i+1}

  Units are in truth correlated, by the weights before them. Between the positions and channels of images that is
  neglected. Along a chain of linear layers and ReLUs the covariance is carried on, through layers of up to 256 units,
  and to the outputs of the network: what units have in common through shared inputs makes it less sure.
- ReLU: exact for a Gaussian input; its covariances to first order.
- Pooling: the units of a window share their noise (correlation 1), since one draw of the kernel serves them all. So a
  maximum has the variance of the unit with the largest mean, and an average the average standard deviation. Near the
  truth for small windows; over a whole image it is far off, so global (adaptive) pooling has no rule.
- Sums of two random tensors (residual connections): independent.
- BatchNorm by its running statistics, flattening and the like, fixed factors and summands: exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor

from tribayes.nn.standin import RandomWeight, StandIn

Covariance = Callable[[], Tensor]  # (N, D, D), computed where it is asked for

_WIDEST = 256  # units of a hidden layer whose covariance is carried on


class ByMoments(StandIn):
    """Base of both stand-ins; its rules are in moment_rules.py."""

    chosen = ("samples", "Moments()")
    remedy = "draw networks instead, e.g. samples=200"


class MomentWeight(RandomWeight, ByMoments):
    """Stands for a random weight or bias; its law enters the moments of the layer that uses it."""


class MomentTensor(ByMoments):
    """Stands for a random tensor of activations: its expectation and its variance, both of its shape."""

    expected: Tensor
    variance: Tensor
    known_covariance: Covariance | None  # right beside the diagonal; the diagonal is `variance`

    @classmethod
    def of(cls, expected: Tensor, variance: Tensor, covariance: Covariance | None = None) -> Self:
        moments = cls.like(expected)
        moments.expected, moments.variance, moments.known_covariance = expected, variance, covariance
        return moments

    def become(self, other: MomentTensor) -> Self:
        """Take over another's moments: what an operation in place does."""
        self.expected, self.variance, self.known_covariance = other.expected, other.variance, other.known_covariance
        return self

    def plus(self, other: MomentTensor) -> MomentTensor:
        """The sum with independent noise of the same shape."""
        terms = [term for term in (self.known_covariance, other.known_covariance) if term is not None]
        covariance = (lambda: sum((term() for term in terms[1:]), terms[0]())) if terms else None
        return MomentTensor.of(self.expected + other.expected, self.variance + other.variance, covariance)

    def covariance(self) -> Tensor:
        """(N, D, D) over the flattened units of each example; independent ones where nothing is known of them."""
        variance = self.variance.reshape(len(self.variance), -1)
        if self.known_covariance is None:
            return torch.diag_embed(variance)
        return self.known_covariance().diagonal_scatter(variance, dim1=-2, dim2=-1)

    def hidden_covariance(self) -> Tensor | None:
        """The same within a network: None where it is not known, or too wide to be carried on."""
        return None if self.known_covariance is None or self.variance.shape[-1] > _WIDEST else self.covariance()
