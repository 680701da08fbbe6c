"""The law of a layer's outputs for a given input is that of its dense twin: J Σ Jᵀ with J = ∂y/∂w."""

import re
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tribayes.nn.preactivation import Preactivation, WeightNoise, Window, preactivation
from tribayes.posterior import FactorisedNormal, TridiagonalNormal
from tribayes.posterior.family import Law

FUNCTIONS = (F.linear, F.conv1d, F.conv2d, F.conv3d)


@dataclass(frozen=True)
class Case:
    """A kernel, an input (without the axis of examples) and how the one slides over the other."""

    kernel: tuple[int, ...]
    inputs: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict)


CASES = {
    "linear": Case((3, 4), (4,)),
    "one output": Case((1, 4), (4,)),
    "one input": Case((3, 1), (1,)),
    "one weight": Case((1, 1), (1,)),
    "two inputs": Case((3, 2), (2,)),
    "conv1d": Case((3, 2, 3), (2, 6)),
    "conv1d, stride": Case((2, 2, 3), (2, 8), {"stride": 2, "padding": 1}),
    "conv2d": Case((2, 3, 2, 3), (3, 4, 5)),
    "conv2d, one channel": Case((3, 1, 3, 3), (1, 4, 4)),
    "conv2d, 1×1": Case((3, 2, 1, 1), (2, 2, 3)),
    "conv2d, column": Case((2, 2, 3, 1), (2, 4, 2)),
    "conv2d, row": Case((2, 2, 1, 3), (2, 2, 4)),
    "conv2d, all options": Case((2, 2, 3, 2), (2, 6, 7), {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2)}),
    "conv2d, groups": Case((4, 2, 2, 2), (4, 3, 3), {"groups": 2}),
    "conv2d, depthwise": Case((4, 1, 2, 2), (2, 3, 3), {"groups": 2, "stride": [2]}),
    "conv2d, same": Case((2, 1, 2, 3), (1, 3, 4), {"padding": "same", "dilation": 2}),
    "conv2d, valid": Case((2, 1, 2, 3), (1, 3, 4), {"padding": "valid"}),
    "conv3d": Case((2, 2, 2, 2, 3), (2, 3, 3, 4), {"stride": (1, 2, 1), "padding": (0, 1, 0)}),
}
any_case = pytest.mark.parametrize("name", CASES)


def law_of(size: int, rho: float | None, tau: float = 0.4) -> Law:
    """Means of both signs; uncorrelated noise of any scale where there is no ρ."""
    generator = torch.Generator().manual_seed(size)
    mean = torch.randn(size, dtype=torch.float64, generator=generator)
    if rho is None:
        return FactorisedNormal(mean, torch.rand(size, dtype=torch.float64, generator=generator) + 0.1)
    return TridiagonalNormal(mean, tau, rho)


def covariance_of(law: Law) -> Tensor:
    return law.covariance_matrix if isinstance(law, TridiagonalNormal) else torch.diag(law.variance)


def inputs_for(case: Case, examples: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.randn(examples, *case.inputs, dtype=torch.float64, generator=generator)


def both(case: Case, rho: float | None) -> tuple[Preactivation, Tensor, Tensor, Tensor]:
    """Ours, and the dense twin's mean, Jacobian (N, O, P, K) by the weights, and Σ; P counts positions."""
    law = law_of(torch.Size(case.kernel).numel(), rho)
    inputs, axes = inputs_for(case), len(case.kernel) - 2

    def layer(weights: Tensor) -> Tensor:
        outputs = FUNCTIONS[axes](inputs, weights.reshape(case.kernel), **case.options)
        return outputs.reshape(*outputs.shape[:2], -1)

    window = Window.of(case.kernel[2:], **case.options)
    ours = preactivation(WeightNoise.of(law, torch.Size(case.kernel)), inputs, window)
    return ours, layer(law.mean), torch.func.jacrev(layer)(law.mean), covariance_of(law)


def by_position(values: Tensor) -> Tensor:
    return values.reshape(*values.shape[:2], values.shape[2:].numel())


@any_case
@pytest.mark.parametrize("rho", [-0.45, 0.3, None])
def test_mean_variance_and_covariance_are_the_dense_twins_at_every_position(name: str, rho: float | None) -> None:
    ours, mean, jacobian, sigma = both(CASES[name], rho)
    dense = torch.einsum("nopk,kl,nqpl->npoq", jacobian, sigma, jacobian)  # (N, P, O, O)
    torch.testing.assert_close(by_position(ours.mean), mean, rtol=1e-12, atol=1e-12)
    variance = by_position(ours.variance).transpose(1, 2)
    torch.testing.assert_close(variance, dense.diagonal(dim1=-2, dim2=-1), rtol=1e-11, atol=1e-12)
    expected = torch.diag_embed(variance)
    if rho is not None:
        beside = by_position(ours.beside).transpose(1, 2)
        expected = expected + torch.diag_embed(beside, 1) + torch.diag_embed(beside, -1)
    torch.testing.assert_close(expected, dense, rtol=1e-11, atol=1e-12)


def test_the_covariance_between_outputs_is_seen_by_the_cases_above() -> None:
    ours, *_ = both(CASES["linear"], -0.45)
    assert ours.beside.abs().min() > 1e-4


def test_an_input_without_an_axis_of_examples_gives_an_output_without() -> None:
    case = CASES["conv2d, groups"]
    law, window = law_of(32, 0.3), Window.of((2, 2), groups=2)
    noise = WeightNoise.of(law, torch.Size(case.kernel))
    alone, batch = (preactivation(noise, x, window) for x in (inputs_for(case)[1], inputs_for(case)))
    torch.testing.assert_close(alone.variance, batch.variance[1], rtol=1e-13, atol=0)
    torch.testing.assert_close(alone.beside, batch.beside[1], rtol=1e-13, atol=0)


def test_linear_inputs_may_have_any_number_of_axes() -> None:
    noise = WeightNoise.of(law_of(12, 0.3), torch.Size([3, 4]))
    inputs = torch.randn(2, 5, 4, dtype=torch.float64)
    ours, flat = preactivation(noise, inputs, Window()), preactivation(noise, inputs.flatten(0, 1), Window())
    torch.testing.assert_close(ours.variance.flatten(0, 1), flat.variance, rtol=1e-13, atol=0)


def test_gradients_reach_mean_scale_correlation_and_input() -> None:
    mean, tau, rho = (torch.tensor(v, dtype=torch.float64) for v in ([0.5, -1.0, 2.0, 0.7], 0.3, -0.2))
    inputs = torch.tensor([[1.0, -0.5]], dtype=torch.float64)

    def moments(mean: Tensor, tau: Tensor, rho: Tensor, inputs: Tensor) -> tuple[Tensor, ...]:
        noise = WeightNoise.of(TridiagonalNormal(mean, tau, rho, validate_args=False), torch.Size([2, 2]))
        ours = preactivation(noise, inputs, Window())
        return ours.mean, ours.variance, ours.beside

    leaves = [leaf.requires_grad_() for leaf in (mean, tau, rho, inputs)]
    assert torch.autograd.gradcheck(moments, leaves)


def test_it_is_computed_in_the_laws_precision_also_under_autocast() -> None:
    law = TridiagonalNormal(torch.linspace(0.1, 1, 64), 0.1, -0.4)
    noise, inputs = WeightNoise.of(law, torch.Size([4, 16])), torch.randn(3, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours = preactivation(noise, inputs.bfloat16(), Window())
    rounded = inputs.bfloat16().double()
    double = TridiagonalNormal(law.loc.double(), 0.1, -0.4)
    expected = preactivation(WeightNoise.of(double, torch.Size([4, 16])), rounded, Window())
    for single, wanted in ((ours.mean, expected.mean), (ours.variance, expected.variance)):
        assert single.dtype == torch.float32
        torch.testing.assert_close(single.double(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Using padding='same':UserWarning")  # torch's remark on its own speed
@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2])
def test_same_padding_is_torchs(size: int, dilation: int) -> None:
    inputs, kernel = torch.randn(1, 1, 9), torch.randn(1, 1, size)
    window = Window.of((size,), padding="same", dilation=dilation)
    ours = window.slide(window.padded(inputs), kernel)
    torch.testing.assert_close(ours, F.conv1d(inputs, kernel, padding="same", dilation=dilation))


def test_a_law_of_another_kind_is_refused() -> None:
    law = torch.distributions.MultivariateNormal(torch.zeros(4), torch.eye(4))
    text = (
        "`family` (='MultivariateNormal') must give laws whose neighbour correlation is known, TridiagonalNormal or "
        'FactorisedNormal; use estimator="plain" and sampled networks, which need only draws.'
    )
    with pytest.raises(ValueError, match=re.escape(text)):
        WeightNoise.of(law, torch.Size([2, 2]))
