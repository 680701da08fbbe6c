"""Predicting without drawing networks, by mean and variance in place of numbers (`samples=tb.Moments()`).

A network runs once, on `MomentTensor`: for every unit an expectation and a variance over the posterior. Points of the
Gaussian it ends in stand for the answers of sampled networks. Assumed is:

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

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from tribayes._errors import refusal
from tribayes._progress import Advance
from tribayes.nn.preactivation import WeightNoise, Window, preactivation
from tribayes.nn.stage import restricted
from tribayes.nn.standin import LAYERS, OperationRule, RandomWeight, StandIn, stand_ins
from tribayes.posterior.distributions import TridiagonalNormal
from tribayes.posterior.streams import Stream
from tribayes.prediction.inputs import Batch
from tribayes.prediction.sampled import Respondent
from tribayes.prediction.source import together

Covariance = Callable[[], Tensor]  # (N, D, D), computed where it is asked for

_WIDEST = 256  # units of a hidden layer whose covariance is carried on
_MOST_OUTPUTS = 1024  # of an example, whose covariance is formed
_ENTRIES_AT_ONCE = 2**24  # of a product of weights and variances, for some examples at a time
_SMALLEST = 2.0**-31  # Sobol points have 30 bits; half a cell off 0 and 1 the quantile function is finite

_REARRANGING = (
    *("flatten", "unflatten", "view", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "movedim"),
    *("contiguous", "clone", "detach", "__getitem__"),
)
_DROPPING = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")


class ByMoments(StandIn):
    """Base of both stand-ins; its rules are below."""

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


def layer(inputs: Tensor, weight: Tensor, bias: Tensor | None = None, *options: Any, **named: Any) -> MomentTensor:
    """A linear layer or a convolution, of which at least one operand is random."""
    if isinstance(inputs, MomentWeight) or weight.ndim < 2:
        raise ByMoments.refused("a layer's input", (inputs, weight))
    window = Window.of(weight.shape[2:], *options, **named)
    expected, _ = _parts(inputs, "a layer")
    if isinstance(weight, MomentWeight):
        noise = weight.noise()
    else:
        noise = WeightNoise(weight.to(expected.dtype), torch.zeros_like(weight, dtype=expected.dtype), None)
    law = preactivation(noise, expected, window)
    beside = law.beside if law.mean.ndim == 2 and not window.axes else None
    outputs = MomentTensor.of(law.mean, law.variance, None if beside is None else partial(_tridiagonal, beside))
    if isinstance(inputs, MomentTensor):
        outputs = outputs.plus(_of_inputs(noise, inputs, window))
    return outputs if bias is None else outputs.plus(_of_bias(bias, law.mean, window))


def _of_inputs(noise: WeightNoise, inputs: MomentTensor, window: Window) -> MomentTensor:
    """What the noise of the inputs adds: Σ (m² + s²) Var x where they are independent."""
    variance = inputs.variance.to(noise.mean.dtype)
    flat = variance.ndim == 2 and not window.axes  # covariances are known of (N, D) alone
    if flat and inputs.known_covariance is not None and variance.shape[-1] <= _WIDEST:
        return _of_correlated_inputs(noise, inputs.covariance().to(noise.mean.dtype))
    added = window.slide(window.padded(variance), noise.mean.square() + noise.scale.square())
    shared = partial(_shared, noise.mean, variance) if flat else None
    return MomentTensor.of(torch.zeros_like(added), added, shared)


def _of_correlated_inputs(noise: WeightNoise, known: Tensor) -> MomentTensor:
    """The same for inputs with covariance C, (N, I, I): Cov(y_o, y_p) = m_oᵀ C m_p + Σ_ij Cov(w_oi, w_pj) C_ij."""
    total = noise.mean @ known @ noise.mean.T
    added = total.diagonal(dim1=-2, dim2=-1) + F.linear(known.diagonal(dim1=-2, dim2=-1), noise.scale.square())
    if noise.mixing is not None:
        rho, scale = noise.mixing[0] * noise.mixing[1], noise.scale
        added = added + 2 * rho * F.linear(known.diagonal(1, -2, -1), scale[:, :-1] * scale[:, 1:])
        total = total + _tridiagonal(rho * scale[:-1, -1] * scale[1:, 0] * known[:, -1, :1])
    return MomentTensor.of(torch.zeros_like(added), added, lambda: total)


def _of_bias(bias: Tensor, outputs: Tensor, window: Window) -> MomentTensor:
    """What a bias adds at every position: its mean and, where it is random, its variance."""
    law = bias.bias_law() if isinstance(bias, MomentWeight) else None
    mean, variance = (bias, torch.zeros_like(bias)) if law is None else (law.mean, law.variance)
    expected, spread = (value.to(outputs.dtype).reshape(-1, *[1] * window.axes) for value in (mean, variance))
    covariance = None
    if isinstance(law, TridiagonalNormal) and outputs.ndim == 2 and not window.axes:  # of (N, D) alone
        covariance = partial(_tridiagonal, (law.rho * law.stddev[:-1] * law.stddev[1:]).expand(len(outputs), -1))
    return MomentTensor.of(expected.expand(outputs.shape), spread.expand(outputs.shape), covariance)


def _shared(rows: Tensor, variance: Tensor) -> Tensor:
    """Σ_i m_oi m_pi Var x_i, (N, O, O): what outputs have in common that share independent inputs."""
    block = max(1, _ENTRIES_AT_ONCE // rows.numel())
    return torch.cat([(rows * part.unsqueeze(1)) @ rows.T for part in variance.split(block)])


def _tridiagonal(pairs: Tensor) -> Tensor:
    """(N, D − 1) → (N, D, D), on both sides of an empty diagonal."""
    return torch.diag_embed(pairs, 1) + torch.diag_embed(pairs, -1)


def relu(inputs: MomentTensor, inplace: bool = False) -> MomentTensor:
    """Exact for x ~ N(μ, σ²): with a = μ/σ, e = φ(a) + a Φ(a) and d = φ(a) − a Φ(−a) = e − a,

    E max(x, 0) = σ e,     Var max(x, 0) = σ² (Φ(a) − d e).

    Covariances are multiplied by the mean slopes Φ(a): right to first order in the correlation (Price's theorem).
    """
    expected, variance = _parts(inputs, "relu")
    deviation = variance.clamp(min=torch.finfo(expected.dtype).tiny).sqrt()
    a = expected / deviation
    density, slope = torch.exp(-0.5 * a.square()) / math.sqrt(2 * math.pi), torch.special.ndtr(a)
    e = (density + a * slope).clamp(min=0)
    d = (density - a * torch.special.ndtr(-a)).clamp(min=0)
    before = inputs.known_covariance
    covariance = None if before is None else lambda: slope.unsqueeze(-1) * before() * slope.unsqueeze(-2)
    rectified = MomentTensor.of(deviation * e, deviation.square() * (slope - d * e).clamp(min=0), covariance)
    return inputs.become(rectified) if inplace else rectified


def _rearranged(name: str, inputs: Tensor, *options: Any, **named: Any) -> MomentTensor:
    """The same for mean and variance."""
    parts = _parts(inputs, f"torch.Tensor.{name}")
    return MomentTensor.of(*(getattr(part, name)(*options, **named) for part in parts))


def _average(name: str, inputs: Tensor, *options: Any, **named: Any) -> MomentTensor:
    """Of units that share their noise: the standard deviation is averaged too."""
    (expected, variance), pool = _parts(inputs, name), getattr(F, name)
    return MomentTensor.of(pool(expected, *options, **named), pool(variance.sqrt(), *options, **named).square())


def _maximum(axes: int, inputs: Tensor, *options: Any, return_indices: bool = False, **named: Any) -> MomentTensor:
    """Of units that share their noise: the one with the largest mean stays the largest."""
    del return_indices
    expected, variance = _parts(inputs, f"max_pool{axes}d")
    pool = getattr(F, f"max_pool{axes}d_with_indices")  # to torch another operation
    largest, place = pool(expected, *options, **named)
    return MomentTensor.of(largest, variance.flatten(-axes).gather(-1, place.flatten(-axes)).reshape(largest.shape))


def _dropout(inputs: MomentTensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> MomentTensor:
    del p, inplace
    if training:
        raise ByMoments.refused("dropout that is switched on", ())
    return inputs


def _batch_norm(inputs: Tensor, mean: Tensor | None, variance: Tensor | None, **named: Any) -> MomentTensor:
    """A fixed scale and shift for each channel. Torch hands on the other arguments by name."""
    if named["training"] or mean is None or variance is None:
        raise ByMoments.refused("batch_norm with the statistics of the batch", ())
    if any(isinstance(value, MomentWeight) for value in named.values()):
        raise ByMoments.refused("torch.nn.functional.batch_norm", named.values())
    expected, spread = _parts(inputs, "batch_norm")
    scale = (variance + named["eps"]).rsqrt() * (1 if named["weight"] is None else named["weight"])
    factors = scale.square().reshape(-1, *[1] * (expected.ndim - 2))
    return MomentTensor.of(F.batch_norm(expected, mean, variance, **named), spread * factors)


def _add(one: Any, other: Any, *, alpha: float = 1) -> MomentTensor:
    """Summands are independent, or fixed."""
    (mean, variance), (other_mean, other_variance) = _parts(one, "add"), _parts(other, "add")
    expected = mean + alpha * other_mean
    return MomentTensor.of(expected, (variance + alpha**2 * other_variance).expand(expected.shape))


def _multiply(one: Any, other: Any) -> MomentTensor:
    """By a fixed factor."""
    if isinstance(other, MomentTensor):
        one, other = other, one
    (mean, variance), (factor, _) = _parts(one, "mul"), _parts(other, "mul")
    if isinstance(other, MomentTensor):
        raise ByMoments.refused("a product of two random tensors", ())
    expected = mean * factor
    return MomentTensor.of(expected, (variance * factor * factor).expand(expected.shape))


def _divide(one: Any, other: Any) -> MomentTensor:
    if isinstance(other, MomentTensor):
        raise ByMoments.refused("a quotient by a random tensor", ())
    return _multiply(one, 1 / other)


def _parts(value: Any, operation: str) -> tuple[Any, Tensor]:
    """Expectation and variance; those of a fixed tensor or number are itself and 0."""
    if isinstance(value, MomentWeight):
        raise ByMoments.refused(operation, (value,))
    return (
        (value.expected, value.variance) if isinstance(value, MomentTensor) else (value, torch.zeros((), device="cpu"))
    )


def _in_place(rule: OperationRule, inputs: Any, *operands: Any, **named: Any) -> MomentTensor:
    if not isinstance(inputs, MomentTensor):
        raise ByMoments.refused("a change in place of a fixed tensor", ())
    return inputs.become(rule(inputs, *operands, **named))


_ARITHMETIC: dict[str, OperationRule] = {
    "add": _add,
    "sub": lambda one, other, *, alpha=1: _add(one, other, alpha=-alpha),
    "mul": _multiply,
    "div": _divide,
}

ByMoments.rules = {
    **dict.fromkeys(LAYERS, layer),
    "relu": relu,
    "relu_": partial(_in_place, relu),
    **{name: partial(_average, name) for name in ("avg_pool1d", "avg_pool2d", "avg_pool3d")},
    **{f"max_pool{axes}d": partial(_maximum, axes) for axes in (1, 2, 3)},
    **{name: partial(_rearranged, name) for name in _REARRANGING},
    **dict.fromkeys(_DROPPING, _dropout),
    "batch_norm": _batch_norm,
    **_ARITHMETIC,
    **{f"{name}_": partial(_in_place, rule) for name, rule in _ARITHMETIC.items()},
    "__rsub__": lambda one, other: _add(other, one, alpha=-1),
    "neg": lambda inputs: _multiply(inputs, -1),
}


class MomentPass(Respondent):
    """Answers at the points of a Gaussian, in place of sampled networks."""

    runs_compiled = False  # moments are unknown to a compiler

    def rows(self, chunk: Sequence[Batch], indices: range, advance: Advance) -> Iterator[Tensor]:
        """(S, n, C), one row: the responses at S points of the outputs' Gaussian."""
        parts = []
        for batch in chunk:
            # squares of small scales do not survive half precision
            with torch.autocast(self.device.type, enabled=False):
                outputs = self.output_moments(batch)
                _check_width(outputs)
                mean, covariance = outputs.expected.reshape(len(outputs), -1), outputs.covariance()
            points = gaussian_points(mean, covariance, len(indices), self.seed)  # (S, n, D)
            answers = self.likelihood.response(points.reshape(-1, *outputs.shape[1:]))
            parts.append(answers.unflatten(0, points.shape[:2]))
            advance(len(outputs) * len(indices))
        yield together(parts, 1)

    def output_moments(self, batch: Batch) -> MomentTensor:
        """Mean and covariance of the network's outputs; a variance of zero where no random weight reaches them."""
        outputs = self.outputs(restricted(stand_ins(self.model, MomentWeight.of), self.only), batch)
        if isinstance(outputs, MomentTensor):
            return outputs
        fixed = outputs.float() if outputs.dtype.itemsize < 4 else outputs
        return MomentTensor.of(fixed, torch.zeros_like(fixed))


def _check_width(outputs: Tensor) -> None:
    """Refuse outputs whose covariance, the square of their number, would not be worth it: images, long texts."""
    numbers = outputs[0].numel()
    if numbers > _MOST_OUTPUTS:
        requirement = f"come with at most {_MOST_OUTPUTS:,} outputs per example, but the model has {numbers:,}"
        raise refusal("samples", "Moments()", requirement, ByMoments.remedy)


def normal_points(count: int, dimension: int, seed: int) -> Tensor:
    """(count, dimension), float64: mean 0, variance 1 in every dimension. `count` is even.

    They are quasi-random (a scrambled Sobol sequence through the normal quantile function) with their mirror images,
    scaled: so mean and variance are exact, and a quantile is within three cells of 1/256 of its probability.
    """
    engine = torch.quasirandom.SobolEngine(dimension, scramble=True, seed=Stream((seed,)).number)
    uniform = engine.draw(count // 2, dtype=torch.float64).clamp(_SMALLEST, 1 - _SMALLEST)
    normals = torch.special.ndtri(uniform)
    points = torch.cat([normals, -normals])
    return points / points.std(0)


def gaussian_points(mean: Tensor, covariance: Tensor, count: int, seed: int) -> Tensor:
    """(count, N, D): points for N Gaussians with means (N, D) and covariances (N, D, D), in the means' dtype.

    The same points serve every example. A covariance may be singular: its diagonal grows by a few roundings.
    """
    covariance = covariance.double()
    variances = covariance.diagonal(dim1=-2, dim2=-1)
    slack = 100 * torch.finfo(mean.dtype).eps * variances.amax(-1, keepdim=True) + torch.finfo(torch.float64).tiny
    root = torch.linalg.cholesky(covariance.diagonal_scatter(variances + slack, dim1=-2, dim2=-1))
    points = normal_points(count, mean.shape[1], seed).to(mean.device)
    return (mean.double() + torch.einsum("ncd,sd->snc", root, points)).to(mean.dtype)
