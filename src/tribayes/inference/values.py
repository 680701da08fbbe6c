"""More likelihoods of values: noise that the network says itself, noise with far outliers, and counts."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from tribayes._errors import check_positive, refusal
from tribayes.inference.likelihood import VALUES, Likelihood
from tribayes.inference.noise import OwnScaleNoise, PoissonNoise, StudentTNoise
from tribayes.inference.positive import put_positive, rows_of_values
from tribayes.inference.targets import (
    check_batch,
    check_counts,
    check_numbers,
    check_outputs,
    check_same_shape,
    per_example,
)
from tribayes.posterior.draw.plain import single
from tribayes.posterior.parametrisation import rescale_, tau_of


class HeteroscedasticGaussian(Likelihood):
    """Regression whose noise depends on the input: outputs (N, 2D), D means and then D raw scales, targets (N, D).

    The standard deviation is `smallest` + softplus(raw scale), times `noise_factor`, which is 1 until
    `tribayes.calibrate` chooses another. Targets (N,) are taken for one value.

    Args:
        smallest: the least standard deviation, in the targets' unit; without it the density could grow without bound
            at an observation that is met exactly.

    Example:
        >>> outputs = torch.tensor([[1.0, 0.5413]])  # softplus(0.5413) = 1
        >>> HeteroscedasticGaussian().nll(outputs, torch.tensor([1.0]))  # ½ ln 2π
        tensor([0.9189])
    """

    predicts = VALUES

    noise_factor: Tensor

    def __init__(self, smallest: float = 1e-6) -> None:
        super().__init__()
        check_positive("smallest", smallest, "it is the least standard deviation of the noise")
        self.smallest = float(smallest)
        self.register_buffer("noise_factor", torch.ones(()))

    def nll(self, outputs: Tensor, targets: Tensor) -> Tensor:
        check_batch(outputs, targets)
        check_numbers(targets)
        outputs = single(outputs)
        places, scales = self._split(outputs)
        targets = targets.unsqueeze(-1) if targets.ndim == 1 else targets
        if targets.shape != places.shape:
            requirement = f"have the shape {tuple(places.shape)} for outputs {tuple(outputs.shape)}, two per value"
            raise refusal("targets", targets, requirement, "reshape them")
        scales = scales * self.noise_factor.to(outputs.dtype)
        return per_example(0.5 * ((targets - places) / scales).square() + scales.log() + 0.5 * math.log(2 * math.pi))

    def _split(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        check_outputs(outputs)
        if outputs.ndim != 2 or outputs.shape[1] % 2:
            remedy = "give D means, then D raw scales: a last layer with twice as many outputs"
            raise refusal("outputs", outputs, "have the shape (N, 2D)", remedy)
        places, raw = outputs.chunk(2, dim=1)
        return places, self.smallest + F.softplus(raw)

    def response(self, outputs: Tensor) -> Tensor:
        """(N, 2D): D means, then D standard deviations."""
        return torch.cat(self._split(outputs), dim=1)

    def noise_law(self) -> OwnScaleNoise:
        return OwnScaleNoise(float(self.noise_factor))

    @torch.no_grad()
    def widen_(self, factor: float) -> None:
        self.noise_factor.mul_(factor)


class StudentT(Likelihood):
    """Regression with outliers: (y − outputs) / scale has Student's law, targets of the outputs' shape.

    Args:
        df: degrees of freedom: 1 is Cauchy's law, 30 nearly a normal one. Up to 2 the variance is infinite, and with
            it `pred.std`; intervals and densities are finite all the same.
        scale: of the noise, in the targets' unit.
        learned: whether the scale is a parameter (add it by `parameter_groups(model, likelihood=...)`).
        df_learned: whether `df` is one.

    Example:
        >>> StudentT(df=1.0).nll(torch.zeros(1), torch.zeros(1))  # ln π
        tensor([1.1447])
    """

    predicts = VALUES

    raw_df: Tensor
    raw_scale: Tensor

    def __init__(self, df: float = 4.0, scale: float = 1.0, learned: bool = False, df_learned: bool = False) -> None:
        super().__init__()
        self.learned, self.df_learned = learned, df_learned
        put_positive(self, "df", df, df_learned, "it counts degrees of freedom")
        put_positive(self, "scale", scale, learned, "it is the scale of the observation noise")

    @property
    def df(self) -> Tensor:
        """Degrees of freedom, a scalar tensor."""
        return tau_of(self.raw_df)

    @property
    def scale(self) -> Tensor:
        """The scale of the noise, a scalar tensor."""
        return tau_of(self.raw_scale)

    def nll(self, outputs: Tensor, targets: Tensor) -> Tensor:
        check_same_shape(outputs, targets, "reshape one of them: (N, 1) against (N,) would broadcast to (N, N)")
        check_numbers(targets)
        outputs = single(outputs)
        df, scale = self.df.to(outputs.dtype), self.scale.to(outputs.dtype)
        size = self._normaliser().to(outputs.dtype) + scale.log()
        return per_example(size + (df + 1) / 2 * torch.log1p(((targets - outputs) / scale).square() / df))

    def _normaliser(self) -> Tensor:
        """ln Γ(df/2) − ln Γ((df + 1)/2) + ½ ln(π df), in float64: the logarithms are large where the law is normal."""
        df = self.df.double()
        return torch.lgamma(df / 2) - torch.lgamma((df + 1) / 2) + 0.5 * (df * math.pi).log()

    def response(self, outputs: Tensor) -> Tensor:
        """(N, D): where a new observation lies, up to its noise."""
        return rows_of_values(outputs)

    def noise_law(self) -> StudentTNoise:
        return StudentTNoise(float(self.df.detach()), float(self.scale.detach()))

    def widen_(self, factor: float) -> None:
        rescale_(self.raw_scale, factor)

    def extra_repr(self) -> str:
        df, scale = float(self.df.detach()), float(self.scale.detach())
        return f"df={df:.4g}, scale={scale:.4g}, learned={self.learned}, df_learned={self.df_learned}"


class Poisson(Likelihood):
    """Counts: y ~ Poisson(exp(outputs)), targets whole numbers of the outputs' shape.

    Example:
        >>> Poisson().nll(torch.zeros(2), torch.tensor([0, 3]))  # 1 + ln y!
        tensor([1.0000, 2.7918])
    """

    predicts = VALUES

    def nll(self, outputs: Tensor, targets: Tensor) -> Tensor:
        check_same_shape(outputs, targets, "give one count per output")
        outputs = single(outputs)
        targets = targets.to(outputs.dtype)
        check_counts(targets)
        return per_example(outputs.exp() - targets * outputs + torch.lgamma(targets + 1))

    def response(self, outputs: Tensor) -> Tensor:
        """(N, D): the rate, which is the mean of a new count."""
        return rows_of_values(outputs).exp()

    def noise_law(self) -> PoissonNoise:
        return PoissonNoise()
