"""Mean and variance through an operation: each rule against its exact identity."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tribayes as tb
from tests.networks import any_family
from tests.nn.test_preactivation import CASES, FUNCTIONS, Case, covariance_of, inputs_for, law_of
from tribayes.nn.stage import Stage
from tribayes.nn.standin import stand_ins
from tribayes.prediction.moments import MomentTensor, MomentWeight, relu

RHOS = pytest.mark.parametrize("rho", [-0.45, 0.3, None])


def by_moments(model: nn.Module, *inputs: Tensor) -> MomentTensor:
    with torch.no_grad():
        return Stage(model).run(stand_ins(model, MomentWeight.of), *inputs)


def uncertain(*shape: int, seed: int = 0) -> MomentTensor:
    """Random means and variances."""
    generator = torch.Generator().manual_seed(seed)
    mean, variance = (torch.randn(shape, dtype=torch.float64, generator=generator) for _ in range(2))
    return MomentTensor.of(mean, variance.square() + 0.1)


def bilinear(case: Case, law_mean: Tensor) -> tuple[Callable[[Tensor, Tensor], Tensor], Tensor]:
    """y(w, x) of one example, flattened, and its coefficients T in y = Σ T w x, of shape (Y, K, X)."""
    function, example = FUNCTIONS[len(case.kernel) - 2], inputs_for(case)[:1]

    def layer(weights: Tensor, inputs: Tensor) -> Tensor:
        return function(inputs.reshape(example.shape), weights.reshape(case.kernel), **case.options).flatten()

    coefficients = torch.func.jacrev(torch.func.jacrev(layer, 0), 1)(law_mean, example.flatten())
    return layer, coefficients


@pytest.mark.filterwarnings("ignore:Using padding='same':UserWarning")
@pytest.mark.parametrize("name", CASES)
@RHOS
def test_a_layer_has_the_exact_moments_of_random_weights_times_random_inputs(name: str, rho: float | None) -> None:
    """Var Σ w x = μᵀ Σ μ + Σ_u v_u (m_u² + Σ_uu), written with the layer's dense coefficients."""
    case = CASES[name]
    law = law_of(torch.Size(case.kernel).numel(), rho)
    inputs = uncertain(1, *case.inputs)
    _, tensor = bilinear(case, law.mean)
    by_weight = tensor @ inputs.expected.flatten()  # (Y, K)
    by_input = torch.einsum("yku,k->yu", tensor, law.mean)
    noise = torch.einsum("yku,kl,ylu->yu", tensor, covariance_of(law), tensor)
    variance = ((by_weight @ covariance_of(law)) * by_weight).sum(-1)
    variance = variance + (by_input.square() + noise) @ inputs.variance.flatten()
    weight = MomentWeight.of("weight", law.mean.reshape(case.kernel), law)
    ours = FUNCTIONS[len(case.kernel) - 2](inputs, weight, **case.options)
    torch.testing.assert_close(ours.expected.flatten(), by_input @ inputs.expected.flatten(), rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(ours.variance.flatten(), variance, rtol=1e-11, atol=1e-12)


@any_family
def test_one_linear_layer_is_known_exactly_with_the_covariance_of_its_outputs(family: str) -> None:
    torch.manual_seed(0)
    model = tb.to_bayesian(nn.Linear(4, 5).double(), family=family, tau=0.3, rho=0.4 if family == "tridiagonal" else 0)
    inputs = torch.randn(3, 4, dtype=torch.float64)
    ours = by_moments(model, inputs)
    expected = torch.zeros(3, 5, 5, dtype=torch.float64)
    for name, law in model.laws().items():
        shape = dict(model.means())[name].shape
        by_weight = torch.func.jacrev(lambda w, n=name, s=shape: model.apply_weights({n: w.reshape(s)}, inputs))
        jacobian = by_weight(law.mean)
        expected += (jacobian @ covariance_of(law) @ jacobian.mT).detach()
    torch.testing.assert_close(ours.covariance(), expected, rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(ours.variance, expected.diagonal(dim1=1, dim2=2), rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(ours.expected, model.apply_weights({}, inputs), rtol=1e-12, atol=1e-13)
    assert (expected.diagonal(1, 1, 2).abs().max() > 1e-3) == (family == "tridiagonal")


@pytest.mark.parametrize("random", [True, False])
def test_outputs_that_share_uncertain_inputs_are_correlated(random: bool) -> None:
    """Cov(y_o, y_p) = Σ m_oi m_pi v_i, and the weights' own beside the diagonal."""
    law = law_of(12, -0.4)
    matrix, inputs = law.mean.reshape(3, 4), uncertain(2, 4)
    ours = F.linear(inputs, MomentWeight.of("weight", matrix, law) if random else matrix)
    rows = torch.kron(torch.eye(3, dtype=torch.float64), inputs.expected.unsqueeze(1))  # (N, O, O I)
    expected = matrix @ torch.diag_embed(inputs.variance) @ matrix.T
    if random:
        own = torch.diag_embed(inputs.variance @ law.variance.reshape(3, 4).T)
        expected = expected + rows @ law.covariance_matrix @ rows.mT + own
    torch.testing.assert_close(ours.covariance(), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("shape", [(3, 4), (1, 4), (3, 1), (2, 2)])
@RHOS
def test_a_linear_layer_is_exact_for_correlated_inputs(shape: tuple[int, int], rho: float | None) -> None:
    """Cov(y_o, y_p) = Σ_ij E[w_oi w_pj] E[x_i x_j] − E y_o E y_p, with dense second moments of both."""
    law, inputs = law_of(shape[0] * shape[1], rho), uncertain(2, shape[1])
    matrix = law.mean.reshape(shape)
    root = torch.randn(2, shape[1], shape[1], dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    known = root @ root.mT
    hidden = MomentTensor.of(inputs.expected, known.diagonal(dim1=1, dim2=2), lambda: known)
    ours = F.linear(hidden, MomentWeight.of("weight", matrix, law))
    by_weights = (covariance_of(law) + torch.outer(law.mean, law.mean)).reshape(*shape, *shape)
    by_inputs = known + inputs.expected.unsqueeze(1) * inputs.expected.unsqueeze(2)
    mean = inputs.expected @ matrix.T
    expected = torch.einsum("oipj,nij->nop", by_weights, by_inputs) - mean.unsqueeze(1) * mean.unsqueeze(2)
    torch.testing.assert_close(ours.covariance(), expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(ours.variance, expected.diagonal(dim1=1, dim2=2), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("standard", [(-1.0, 0.5), (0.0, 0.0), (2.0, -0.3)])
def test_relu_carries_covariances_to_first_order(standard: tuple[float, float]) -> None:
    """Two normals with a correlation of 0.01, integrated over a grid: the error is of the order of its square."""
    correlation = 0.01
    grid = torch.linspace(-8, 8, 801, dtype=torch.float64)
    x, y = torch.meshgrid(grid, grid, indexing="ij")
    quadratic = (x.square() - 2 * correlation * x * y + y.square()) / (1 - correlation**2)
    weights = torch.exp(-0.5 * quadratic)
    weights = weights / weights.sum()
    one, other = ((axis + a).clamp(min=0) for axis, a in zip((x, y), standard, strict=True))
    exact = (one * other * weights).sum() - (one * weights).sum() * (other * weights).sum()
    mean = torch.tensor([standard], dtype=torch.float64)
    known = torch.tensor([[[1.0, correlation], [correlation, 1.0]]], dtype=torch.float64)
    ours = relu(MomentTensor.of(mean, torch.ones_like(mean), lambda: known))
    assert ours.covariance()[0, 0, 1].item() == pytest.approx(exact.item(), rel=0.02)
    torch.testing.assert_close(ours.covariance().diagonal(dim1=1, dim2=2), ours.variance)


def test_a_bias_adds_its_own_moments_to_every_position() -> None:
    law = law_of(2, 0.3)
    inputs, kernel = uncertain(1, 1, 3, 3), torch.randn(2, 1, 2, 2, dtype=torch.float64)
    without, fixed = F.conv2d(inputs, kernel), F.conv2d(inputs, kernel, law.mean)
    random = F.conv2d(inputs, kernel, MomentWeight.of("bias", law.mean, law))
    torch.testing.assert_close(fixed.expected, without.expected + law.mean.reshape(2, 1, 1))
    torch.testing.assert_close(random.expected, fixed.expected)
    torch.testing.assert_close(fixed.variance, without.variance)
    torch.testing.assert_close(random.variance, without.variance + law.variance.reshape(2, 1, 1))


@pytest.mark.parametrize("deviation", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("standard", [-5.0, -2.0, -0.5, 0.0, 0.7, 3.0, 8.0])
def test_relu_has_the_moments_of_a_rectified_gaussian(standard: float, deviation: float) -> None:
    """Against an integral over 200,001 points; five deviations below zero, 1e-7 of σ² is left."""
    grid = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
    density = torch.exp(-0.5 * grid.square()) / math.sqrt(2 * math.pi)
    values = (deviation * (grid + standard)).clamp(min=0)
    mean = torch.trapezoid(values * density, grid)
    variance = torch.trapezoid((values - mean).square() * density, grid)
    one = torch.ones(1, dtype=torch.float64)
    ours = relu(MomentTensor.of(standard * deviation * one, deviation**2 * one))
    torch.testing.assert_close(ours.expected, mean * one, rtol=1e-7, atol=1e-12)
    torch.testing.assert_close(ours.variance, variance * one, rtol=1e-7, atol=1e-12)


def test_relu_keeps_its_digits_in_single_precision() -> None:
    """Means up to a thousand deviations from zero, where E x² − (E x)² would leave nothing."""
    standard = torch.tensor([-1000.0, -20, -3, 0, 3, 20, 1000])
    single = relu(MomentTensor.of(standard, torch.ones(7)))
    double = relu(MomentTensor.of(standard.double(), torch.ones(7, dtype=torch.float64)))
    torch.testing.assert_close(single.expected.double(), double.expected, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(single.variance.double(), double.variance, rtol=1e-5, atol=1e-6)
    assert single.variance[-1] == 1


def test_relu_of_what_is_certain_is_certain() -> None:
    mean = torch.tensor([-2.0, 0.0, 3.0])
    ours = relu(MomentTensor.of(mean, torch.zeros(3)))
    torch.testing.assert_close(ours.expected, mean.clamp(min=0))
    assert ours.variance.max() < 1e-30


POOLS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "max 1d": (lambda x: F.max_pool1d(x, 2), (2, 3, 6)),
    "max 2d": (lambda x: F.max_pool2d(x, 2), (2, 3, 6, 6)),
    "max 2d, options": (lambda x: F.max_pool2d(x, 3, 2, padding=1, ceil_mode=True), (2, 3, 6, 7)),
    "max 2d, module": (nn.MaxPool2d((2, 3), stride=1, dilation=(2, 1)), (2, 3, 6, 6)),
    "max 3d": (nn.MaxPool3d(2), (1, 2, 4, 4, 4)),
    "average 1d": (nn.AvgPool1d(3), (2, 3, 6)),
    "average 2d": (lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True), (2, 3, 6, 6)),
    "average 2d, module": (nn.AvgPool2d(3, 2, padding=1, count_include_pad=False), (2, 3, 6, 6)),
    "average 3d": (nn.AvgPool3d(2), (1, 2, 4, 4, 4)),
}


@pytest.mark.parametrize("name", POOLS)
def test_pooled_units_share_their_noise(name: str) -> None:
    """One normal g moves all units: pool(μ + σ g) = E + S g for small g, and S² is the variance."""
    pool, shape = POOLS[name]
    inputs = uncertain(*shape)
    ours = pool(inputs)
    small = 1e-6 * inputs.variance.sqrt()
    slope = (pool(inputs.expected + small) - pool(inputs.expected - small)) / 2e-6
    torch.testing.assert_close(ours.expected, pool(inputs.expected))
    torch.testing.assert_close(ours.variance.sqrt(), slope, rtol=1e-7, atol=1e-9)


def batch_norm() -> nn.Module:
    norm = nn.BatchNorm2d(3).double().eval()
    for values in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
        nn.init.uniform_(values, 0.2, 2)
    return norm


FACTOR = torch.tensor([2.0, -0.5, 3.0, 1.0], dtype=torch.float64)
AFFINE: dict[str, Callable[[Any], Any]] = {  # of (2, 3, 4, 4)
    "flatten": lambda x: x.flatten(1),
    "torch.flatten": lambda x: torch.flatten(x, 1),
    "nn.Flatten": nn.Flatten(),
    "view by size": lambda x: x.view(x.size(0), -1),
    "reshape by len": lambda x: x.reshape(len(x), x.shape[1], 16),
    "permute": lambda x: x.permute(0, 2, 3, 1).contiguous(),
    "transpose": lambda x: x.transpose(1, 2).unsqueeze(0).squeeze(0),
    "part": lambda x: x[:, 1:, ::2],
    "identity": nn.Identity(),
    "dropout": nn.Sequential(nn.Dropout(), nn.Dropout2d()).eval(),
    "batch norm": batch_norm(),
    "batch norm without affine": nn.BatchNorm2d(3, affine=False).double().eval(),
    "plus a number": lambda x: 1 + x,
    "plus a tensor": lambda x: x + FACTOR,
    "minus": lambda x: x - FACTOR,
    "from": lambda x: 2 - x,
    "from a tensor": lambda x: FACTOR - x,
    "times": lambda x: -(3 * x) * FACTOR,
    "times from the left": lambda x: FACTOR * x,
    "over": lambda x: x / FACTOR,
    "torch.add": lambda x: torch.add(x, FACTOR, alpha=2),
    "torch.sub": lambda x: torch.sub(FACTOR, x, alpha=2),
    "in place": lambda x: x.clone().mul_(2).add_(1).sub_(FACTOR).div_(4),
}


@pytest.mark.parametrize("name", AFFINE)
def test_what_is_affine_in_each_unit_moves_mean_and_deviation_with_it(name: str) -> None:
    change = AFFINE[name]
    inputs = uncertain(2, 3, 4, 4)
    with torch.no_grad():
        mean, moved = change(inputs.expected), change(inputs.expected + inputs.variance.sqrt())
        ours = change(inputs)
    assert ours.shape == mean.shape == ours.variance.shape
    torch.testing.assert_close(ours.expected, mean, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(ours.variance, (moved - mean).square(), rtol=1e-10, atol=1e-13)


def test_a_sum_of_random_tensors_adds_variances() -> None:
    one, other = uncertain(2, 3), uncertain(3, seed=1)
    for ours, mean in ((one + other, one.expected + other.expected), (one - other, one.expected - other.expected)):
        torch.testing.assert_close(ours.expected, mean)
        torch.testing.assert_close(ours.variance, one.variance + other.variance)


def test_operations_in_place_change_what_they_are_given() -> None:
    inputs = uncertain(2, 3)
    plain = relu(uncertain(2, 3))
    for change in (lambda x: F.relu(x, inplace=True), lambda x: x.relu_(), torch.relu_):
        given = uncertain(2, 3)
        assert change(given) is given
        assert torch.equal(given.expected, plain.expected)
        assert torch.equal(given.variance, plain.variance)
    before = inputs.expected
    assert inputs.add_(1) is inputs
    torch.testing.assert_close(inputs.expected, before + 1)
