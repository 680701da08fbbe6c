"""The draw: each implementation against autograd, its law by identity and by statistics, and which one is chosen.

"plain" is compared with the formula left to autograd, "cpu" with "plain" from the same normals. The kernels of a GPU
are compared with "plain" in tests/gpu/test_kernels.py.

The statistical tests are seeded. Each states its failure rate, the probability that a correct sampler fails for a
fresh seed. If one fails after a change that reorders random numbers, it may be given one new seed, not two.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence
from torch.nn import Parameter

from tests.oracle import paper
from tests.posterior.cases import CASES, assert_agree, law_of, leaf, means, normals
from tribayes.posterior import FAMILIES, FactorisedNormal, Prior, Stream, TridiagonalNormal, distributions
from tribayes.posterior.draw import draw, guard_, implementation_for, plain
from tribayes.posterior.draw.cuda import seeds_of
from tribayes.posterior.parametrisation import rule_of
from tribayes.posterior.prior import AnyTensorPrior, BestScale, TensorPrior

LOC = torch.tensor([0.5, -2.0, 1e-3, 3.0, -0.7], dtype=torch.float64)
SHAPES = [(4, 3), (2, 3, 5, 5), (7,), (1,)]
SEED = 5

either = pytest.mark.parametrize("implementation", ["plain", "cpu"])
counts = pytest.mark.parametrize("count", [None, 1, 4])

Inputs = tuple[list[Tensor], Tensor, Tensor]


def _inputs(dtype: torch.dtype = torch.float64, gamma: float | None = None) -> Inputs:
    source = torch.Generator().manual_seed(1)
    tensors = [torch.randn(shape, generator=source, dtype=dtype).requires_grad_() for shape in SHAPES]
    delta = torch.tensor([-1.0, 0.3, -3.0, 0.0], dtype=dtype, requires_grad=True)
    raw = torch.tensor([-2.0, 0.5, 9.0, 0.0], dtype=dtype) if gamma is None else torch.full((4,), gamma, dtype=dtype)
    return tensors, delta, raw.requires_grad_()


def _prior(loc: float | Tensor, scale: float | Tensor) -> list[TensorPrior]:
    return [Prior(loc, scale).resolve("w", tensor) for tensor in _inputs()[0]]


def _per_weight(loc: bool, scale: bool) -> list[TensorPrior]:
    source = torch.Generator().manual_seed(2)
    locs = [torch.randn(shape, generator=source) if loc else 0.3 for shape in SHAPES]
    scales = [torch.rand(shape, generator=source) + 0.5 if scale else 0.7 for shape in SHAPES]
    numbers = zip(locs, scales, _inputs()[0], strict=True)
    return [Prior(one, other).resolve("w", tensor) for one, other, tensor in numbers]


PRIORS: dict[str, list[AnyTensorPrior] | None] = {
    "none": None,
    "standard": _prior(0.0, 1.0),
    "scalar": _prior(0.3, 0.5),
    "scale alone": _prior(0.0, 0.5),
    "loc per weight": _per_weight(loc=True, scale=False),
    "scale per weight": _per_weight(loc=False, scale=True),
    "both per weight": _per_weight(loc=True, scale=True),
    "mixed": [*_prior(0.0, 1.0)[:2], *_per_weight(loc=True, scale=True)[2:]],
    "relative": [BestScale() for _ in SHAPES],
    "relative and not": [BestScale(), *_prior(0.3, 0.5)[1:3], BestScale()],
    "pretrained": [Prior("pretrained", 0.1).resolve("w", tensor) for tensor in _inputs()[0]],
}
all_priors = pytest.mark.parametrize("priors", PRIORS.values(), ids=PRIORS)


def _literal(tensors: list[Tensor], delta: Tensor, gamma: Tensor, drawn: list[Tensor]) -> list[Tensor]:
    """w_i = m_i + |m_i| τ (x_i + t x_{i−1}) / √(1 + t²) as it stands."""
    tau, t = torch.log1p(delta.exp()), torch.tanh(gamma / 4)
    return [
        (m.reshape(-1) + m.reshape(-1).abs() * tau[j] * (x[1:] + t[j] * x[:-1]) / (1 + t[j] ** 2).sqrt()).reshape(
            m.shape
        )
        for j, (m, x) in enumerate(zip(tensors, drawn, strict=True))
    ]


def _rounds(tensors: list[Tensor], count: int | None) -> list[list[Tensor]]:
    """The normals of a seed, draw by draw."""
    sources = plain.sources_of(tensors, SEED)
    return [plain.normals_for(tensors, sources) for _ in range(count or 1)]


def _gradients(outputs: list[Tensor], leaves: list[Tensor]) -> tuple[Tensor, ...]:
    source = torch.Generator().manual_seed(9)
    upstream = [torch.randn(value.shape, generator=source, dtype=torch.float64).to(value.dtype) for value in outputs]
    return torch.autograd.grad(outputs, leaves, upstream, allow_unused=True, materialize_grads=True)


def _assert_close(ours: tuple[Tensor, ...], theirs: tuple[Tensor, ...], rtol: float, atol: float) -> None:
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=rtol, atol=atol)


# values and gradients


@either
@counts
@pytest.mark.parametrize("gamma", [None, 0.0, -3.0, 10.0])
def test_values_and_gradients_are_those_of_the_formula(
    implementation: str, count: int | None, gamma: float | None
) -> None:
    tensors, delta, raw = _inputs(gamma=gamma)
    leaves = [*tensors, delta, raw]
    ours, divergence = draw(tensors, delta, raw, SEED, count, implementation=implementation)
    rounds = [_literal(tensors, delta, raw, drawn) for drawn in _rounds(tensors, count)]
    literal = rounds[0] if count is None else [torch.stack(column) for column in zip(*rounds, strict=True)]
    assert divergence is None
    _assert_close(tuple(ours), tuple(literal), rtol=1e-13, atol=1e-15)
    _assert_close(_gradients(ours, leaves), _gradients(literal, leaves), rtol=1e-11, atol=1e-12)


@all_priors
@counts
@pytest.mark.parametrize("correlated", [True, False])
def test_a_cpu_draws_what_plain_torch_draws(
    priors: list[AnyTensorPrior] | None, count: int | None, correlated: bool
) -> None:
    """All priors, one draw or a stack; `Diagonal` hands over a γ of zeros that is not learned."""
    tensors, delta, gamma = _inputs()
    if not correlated:
        gamma = torch.zeros_like(delta, requires_grad=False)
    leaves = [*tensors, delta, gamma] if correlated else [*tensors, delta]
    results = []
    for implementation in ("cpu", "plain"):
        weights, divergence = draw(tensors, delta, gamma, SEED, count, priors, implementation)
        outputs = weights if divergence is None else [*weights, divergence]
        assert (divergence is None) == (priors is None)
        results.append((outputs, _gradients(outputs, leaves)))
    (ours, gradients), (theirs, plain_gradients) = results
    _assert_close(tuple(ours), tuple(theirs), rtol=1e-12, atol=1e-12)
    _assert_close(gradients, plain_gradients, rtol=1e-10, atol=1e-11)


@all_priors
def test_the_second_derivatives_of_a_cpu_are_those_of_plain_torch(priors: list[AnyTensorPrior] | None) -> None:
    tensors, delta, gamma = _inputs()
    leaves = [*tensors, delta, gamma]
    hessians = []
    for implementation in ("cpu", "plain"):
        weights, divergence = draw(tensors, delta, gamma, SEED, None, priors, implementation)
        loss = sum(value.pow(3).sum() for value in weights)
        loss = loss if divergence is None else loss + 0.7 * divergence
        first = torch.autograd.grad(loss, leaves, create_graph=True)
        hessians.append(torch.autograd.grad(sum(part.pow(2).sum() for part in first), leaves))
    _assert_close(*hessians, rtol=1e-9, atol=1e-9)


@either
@pytest.mark.parametrize(
    "priors",
    [None, _per_weight(loc=True, scale=True), PRIORS["relative"]],
    ids=["draw", "divergence", "relative divergence"],
)
def test_a_draw_passes_gradcheck_twice(implementation: str, priors: list[AnyTensorPrior] | None) -> None:
    tensors, delta, gamma = _inputs()
    leaves = [tensors[0], tensors[2], delta[:2].detach().requires_grad_(), gamma[:2].detach().requires_grad_()]
    chosen = None if priors is None else [priors[0], priors[2]]

    def function(one: Tensor, other: Tensor, d: Tensor, g: Tensor) -> tuple[Tensor, ...]:
        weights, divergence = draw([one, other], d, g, SEED, 2, chosen, implementation)
        return (*weights, divergence) if divergence is not None else tuple(weights)

    assert torch.autograd.gradcheck(function, leaves)
    assert torch.autograd.gradgradcheck(function, leaves)


@pytest.mark.parametrize("gamma", [0.0, 1e-20, -1e-6, 3.9, -9.2, 10.0, -10.0])
@pytest.mark.parametrize("delta", [-10.0, -4.6, 0.0, 30.0])
def test_the_ends_of_scale_and_correlation_are_ordinary(gamma: float, delta: float) -> None:
    """Within the guards, ρ to ±0.49995: the gradients of draw and divergence agree, relative to the largest."""
    tensors, raw_delta, raw_gamma = _inputs(gamma=gamma)
    raw_delta = torch.full_like(raw_delta, delta).requires_grad_()
    leaves = [*tensors, raw_delta, raw_gamma]
    results = []
    for implementation in ("cpu", "plain"):
        weights, divergence = draw(tensors, raw_delta, raw_gamma, SEED, None, PRIORS["scalar"], implementation)
        results.append(_gradients([*weights, divergence], leaves))
    for ours, theirs in zip(*results, strict=True):
        assert theirs.isfinite().all()
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10 * (1 + theirs.abs().max().item()))


def test_long_tensors_have_the_gradients_of_short_ones() -> None:
    """Beyond 4,096 entries inner products are taken in another way."""
    source = torch.Generator().manual_seed(3)
    tensors = [torch.randn(size, dtype=torch.float64, generator=source).requires_grad_() for size in (4095, 4096, 9001)]
    delta, gamma = (torch.tensor(raw, dtype=torch.float64).requires_grad_() for raw in ([-1.0] * 3, [1.0] * 3))
    priors = [Prior(0.1, 0.9).resolve("w", tensor) for tensor in tensors]
    results = []
    for implementation in ("cpu", "plain"):
        weights, divergence = draw(tensors, delta, gamma, SEED, None, priors, implementation)
        results.append(_gradients([*weights, divergence], [*tensors, delta, gamma]))
    _assert_close(*results, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("priors", ["standard", "both per weight", "relative"])
def test_single_precision_is_double_precision_to_its_digits(priors: str) -> None:
    given = PRIORS[priors]
    tensors, delta, gamma = _inputs(torch.float32)
    singles = [copy.deepcopy(prior).float() for prior in given]
    leaves = [*tensors, delta, gamma]
    doubles = [value.detach().double().requires_grad_() for value in leaves]
    rounded = [[x.float() for x in row] for row in _rounds(tensors, None)]
    results = []
    for used, chosen, implementation in ((leaves, singles, "cpu"), (doubles, given, "plain")):
        *values, d, g = used
        noise = [x.to(d.dtype) for x in rounded[0]]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plain, "normals_for", lambda *_, noise=noise: noise)
            weights, divergence = draw(values, d, g, None, None, chosen, implementation)
        results.append([*weights, divergence, *_gradients([*weights, divergence], used)])
    for single, double in zip(*results, strict=True):
        bound = 1e-4 * (1 + double.abs().max().item())
        torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=bound)


@either
@pytest.mark.parametrize(("size", "delta", "gamma"), CASES)
def test_the_divergence_and_its_gradients_are_the_papers(
    implementation: str, size: int, delta: float, gamma: float
) -> None:
    """Equations (30) and (46)-(48), evaluated literally, for what comes with a draw."""
    raw = leaf(means(size)), leaf([delta]), leaf([gamma])
    loc = normals(size, seed=3)
    prior = TensorPrior(torch.tensor(loc), torch.tensor(0.7, dtype=torch.float64))
    _, divergence = draw([raw[0]], raw[1], raw[2], SEED, None, [prior], implementation)
    assert_agree(divergence, paper.kl(means(size), delta, gamma, loc, 0.7))
    by_m, by_delta, by_gamma = torch.autograd.grad(divergence, raw)
    expected = paper.kl_gradient(means(size), delta, gamma, loc, 0.7)
    assert_agree(by_m, expected[0])
    assert_agree(by_delta[0], expected[1])
    assert_agree(by_gamma[0], expected[2])


@either
def test_the_divergence_is_the_sum_of_the_registered_ones(implementation: str) -> None:
    tensors, delta, gamma = _inputs()
    given = PRIORS["mixed"]
    _, divergence = draw(tensors, delta, gamma, SEED, None, given, implementation)
    each = [
        kl_divergence(law_of(tensor.reshape(-1), d, g), Normal(prior.loc, prior.scale))
        for tensor, d, g, prior in zip(tensors, delta, gamma, given, strict=True)
    ]
    torch.testing.assert_close(divergence, torch.stack(each).sum(), rtol=1e-12, atol=1e-12)


@either
def test_the_divergence_of_three_weights_by_hand(implementation: str) -> None:
    prior = Prior(loc=0.5, scale=2.0).resolve("w", torch.ones(3))
    _, divergence = draw([torch.ones(3)], torch.zeros(1), torch.zeros(1), SEED, None, [prior], implementation)
    tau = torch.log(torch.tensor(2.0))
    # three independent N(1, τ²) against N(½, 4)
    torch.testing.assert_close(divergence, 3 * (torch.log(2 / tau) + (tau**2 + 0.25) / 8 - 0.5))


@either
def test_a_tensor_that_is_not_used_gets_its_share_of_the_divergence(implementation: str) -> None:
    tensors, delta, gamma = _inputs()
    weights, divergence = draw(tensors, delta, gamma, SEED, None, PRIORS["standard"], implementation)
    (weights[0].sum() + divergence).backward()
    for tensor in tensors:
        assert tensor.grad is not None
        assert (tensor.grad != 0).all()


@either
def test_a_tensor_that_is_not_learned_stays_without_a_gradient(implementation: str) -> None:
    tensors, delta, gamma = _inputs()
    tensors[1].requires_grad_(False)
    weights, divergence = draw(tensors, delta, gamma, SEED, None, PRIORS["standard"], implementation)
    (sum(value.sum() for value in weights) + divergence).backward()
    assert tensors[1].grad is None
    assert all(tensors[number].grad is not None for number in (0, 2, 3))


@either
def test_a_mean_of_zero_gets_a_finite_gradient(implementation: str) -> None:
    """Not a legal mean (the divergence is infinite there), but a network must survive meeting one."""
    loc = torch.tensor([0.0, 1.0, 0.0, -0.0], requires_grad=True)
    delta, gamma = torch.zeros(1, requires_grad=True), torch.ones(1, requires_grad=True)
    (weights,), _ = draw([loc], delta, gamma, SEED, implementation=implementation)
    upstream = torch.tensor([1.0, 2.0, 3.0, -4.0])
    weights.backward(upstream)
    assert torch.equal(loc.grad[[0, 2, 3]], upstream[[0, 2, 3]])
    assert loc.grad.isfinite().all()
    assert loc.grad[1] == upstream[1] * weights.detach()[1]  # m = 1: 1 + r is the weight
    assert delta.grad.isfinite().all()
    assert gamma.grad.isfinite().all()


@either
def test_a_gradient_that_is_not_a_number_is_not_hidden(implementation: str) -> None:
    loc = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
    (weights,), _ = draw([loc], torch.zeros(1), torch.zeros(1), SEED, implementation=implementation)
    weights.backward(torch.tensor([1.0, float("nan"), 1.0]))
    assert loc.grad.isnan().tolist() == [False, True, False]


# shapes, memory and precision


@either
def test_the_first_of_many_is_the_draw_alone(implementation: str) -> None:
    tensors, delta, gamma = _inputs()
    three, _ = draw(tensors, delta, gamma, SEED, 3, implementation=implementation)
    alone, _ = draw(tensors, delta, gamma, SEED, implementation=implementation)
    source = Stream((SEED,)).generator(torch.device("cpu"))
    following = [draw(tensors, delta, gamma, source, implementation=implementation)[0] for _ in range(3)]
    for number, (stack, one) in enumerate(zip(three, alone, strict=True)):
        assert stack.shape == (3, *one.shape)
        assert torch.equal(stack[0], one)
        assert torch.equal(stack, torch.stack([row[number] for row in following]))
        assert all((stack[i] != stack[j]).all() for i, j in ((0, 1), (0, 2), (1, 2)))


@either
def test_the_divergence_of_many_draws_is_counted_once(implementation: str) -> None:
    tensors, delta, gamma = _inputs()
    one, three = (draw(tensors, delta, gamma, SEED, count, PRIORS["scalar"], implementation)[1] for count in (None, 3))
    torch.testing.assert_close(one, three, rtol=1e-14, atol=0)


@either
def test_the_order_of_memory_does_not_change_the_law(implementation: str) -> None:
    tensors, delta, gamma = _inputs()
    strided = [t.detach().to(memory_format=torch.channels_last) if t.ndim == 4 else t.detach() for t in tensors]
    strided[0] = tensors[0].detach().T.contiguous().T
    assert not strided[0].is_contiguous()
    assert not strided[1].is_contiguous()
    results = []
    for values in (tensors, strided):
        leaves = [value.detach().requires_grad_() for value in values]
        weights, divergence = draw(leaves, delta, gamma, SEED, None, PRIORS["both per weight"], implementation)
        results.append([*weights, *_gradients([*weights, divergence], leaves)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_weights_are_single_ones_rounded(dtype: torch.dtype) -> None:
    tensors, delta, gamma = _inputs(dtype)
    single = [value.detach().float() for value in tensors]
    half, _ = draw(tensors, delta, gamma, SEED)
    wide, _ = draw(single, delta.float(), gamma.float(), SEED)
    for ours, theirs in zip(half, wide, strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours, theirs.to(dtype), rtol=1e-2, atol=1e-3)


def test_under_vmap_raw_numbers_are_batched() -> None:
    tensors, _, _ = _inputs()
    tensors = [tensors[2].detach()]
    noise = torch.randn(4, 8, dtype=torch.float64)
    raw = torch.tensor([[-0.7, 1.0], [0.3, -2.0], [1.0, 0.0], [-4.0, 9.0]], dtype=torch.float64)

    def one(pair: Tensor, x: Tensor) -> Tensor:
        return plain.weights_from(tensors, pair[:1], pair[1:], [x])[0]

    mapped = torch.func.vmap(one)(raw, noise)
    looped = torch.stack([one(pair, x) for pair, x in zip(raw, noise, strict=True)])
    torch.testing.assert_close(mapped, looped, rtol=1e-13, atol=1e-15)


def test_under_vmap_and_func_grad_a_draw_is_the_loop() -> None:
    tensors, delta, gamma = _inputs()
    noise = torch.randn(4, 8, dtype=torch.float64)

    def loss(d: Tensor, x: Tensor) -> Tensor:
        return plain.weights_from([tensors[2].detach()], d, gamma.detach()[:1], [x])[0].square().sum()

    batched = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(delta.detach()[:1], noise)
    looped = torch.stack([torch.func.grad(loss)(delta.detach()[:1], x) for x in noise])
    torch.testing.assert_close(batched, looped, rtol=1e-13, atol=0)


# the law


@either
@pytest.mark.parametrize("gamma", [-10.0, -1.0, 0.0, 10.0])
def test_the_covariance_of_a_draw_is_sigma_as_an_identity(
    implementation: str, gamma: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A draw is m + F x with F of size K × (K + 1); F is read off unit vectors, and F Fᵀ = Σ to rounding."""
    delta, raw = (torch.tensor([value], dtype=torch.float64) for value in (0.2, gamma))
    units = iter(torch.eye(len(LOC) + 1, dtype=torch.float64))
    monkeypatch.setattr(plain, "normals_for", lambda *_: [next(units)])
    (columns,), _ = draw([LOC], delta, raw, None, len(LOC) + 1, implementation=implementation)
    factor = (columns - LOC).T
    expected = law_of(LOC, delta[0], raw[0]).covariance_matrix
    torch.testing.assert_close(factor @ factor.T, expected, rtol=0, atol=1e-15 * expected.max().item())


@pytest.mark.parametrize("gamma", [-10.0, -1.0, 0.0, 10.0])
def test_the_covariance_of_a_distributions_draw_is_sigma_as_an_identity(
    gamma: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    law = law_of(LOC, *torch.tensor([0.2, gamma], dtype=torch.float64))
    units = torch.eye(LOC.numel() + 1, dtype=torch.float64)
    monkeypatch.setattr(distributions, "normals_from", lambda *_: units)
    factor = (law.rsample((LOC.numel() + 1,)) - LOC).T
    expected = law.covariance_matrix
    torch.testing.assert_close(factor @ factor.T, expected, rtol=0, atol=1e-15 * expected.max().item())


def _scores(draws: Tensor, mean: Tensor, covariance: Tensor) -> Tensor:
    """20 standardised moments of (n, 5) draws: means, and the upper triangle of the covariance."""
    n = len(draws)
    variance = covariance.diagonal()
    centred = draws - mean
    z_mean = centred.mean(0) / (variance / n).sqrt()
    error = (covariance.square() + variance.outer(variance)) / n  # of an entry of the empirical covariance
    z_covariance = (centred.T @ centred / n - covariance) / error.sqrt()
    upper = torch.triu_indices(len(mean), len(mean))
    z = torch.cat([z_mean, z_covariance[upper[0], upper[1]]])
    assert z.numel() == 20
    return z


@pytest.mark.parametrize(
    "law",
    [TridiagonalNormal(LOC, 0.4, -0.45), TridiagonalNormal(LOC, 1.5, 0.3), FactorisedNormal(LOC, LOC.abs())],
    ids=["negative", "positive", "factorised"],
)
def test_moments_of_a_distributions_draws(law: TridiagonalNormal | FactorisedNormal) -> None:
    """Failure rate below 1e-6: 20 standardised moments, each two-sided normal, bound 5.6 (2·20·Φ(−5.6) = 4e-7)."""
    covariance = law.covariance_matrix if isinstance(law, TridiagonalNormal) else torch.diag(law.variance)
    assert _scores(law.rsample((200_000,), generator=11), law.mean, covariance).abs().max() < 5.6


@pytest.mark.parametrize(
    ("family", "implementation", "rho"),
    [
        *((family, implementation, rho) for family, rho in (("tridiagonal", -0.45), ("tridiagonal", 0.3))
          for implementation in ("plain", "cpu")),
        ("diagonal", "plain", 0.0),
        ("diagonal", "cpu", 0.0),
        ("mean_field", None, 0.0),
    ],
)  # fmt: skip
def test_moments_of_a_familys_draws(family: str, implementation: str | None, rho: float) -> None:
    """Of 20,000 equal tensors drawn at once. Failure rate below 1e-6, as above."""
    n = 20_000
    tensors = [LOC] * n
    made = FAMILIES[family](tensors[:1], [0.4], [rho])
    law = made.laws([LOC])[0]
    covariance = law.covariance_matrix if isinstance(law, TridiagonalNormal) else torch.diag(law.variance)
    if family == "mean_field":
        made.raw_scale = torch.nn.ParameterList([made.raw_scale[0]] * n)
    else:
        made._implementation = implementation
        made.delta = Parameter(made.delta.detach().expand(n).clone())
        if family == "tridiagonal":
            made.gamma = Parameter(made.gamma.detach().expand(n).clone())
    with torch.no_grad():
        weights, _ = made.draw(tensors, 11)
        assert _scores(torch.stack(weights), LOC, covariance).abs().max() < 5.6


@either
def test_the_tensors_of_a_draw_are_independent(implementation: str) -> None:
    """Correlations of 10,000 pairs within ±5 standard errors, 3 of them: failure rate 2e-6."""
    n = 10_000
    tensors = [torch.ones(n, dtype=torch.float64) for _ in range(3)]
    zeros = torch.zeros(3, dtype=torch.float64)
    weights, _ = draw(tensors, zeros, zeros, 2, implementation=implementation)
    noise = torch.stack(weights) - 1
    scaled = noise / noise.std(1, keepdim=True)
    assert (scaled @ scaled.T / n).triu(1).abs().max() < 5 / n**0.5


# a distribution's own draws


def _batched(batch: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    loc = torch.randn(*batch, 6, dtype=torch.float64, generator=generator).requires_grad_()
    tau = (torch.rand(batch, dtype=torch.float64, generator=generator) + 0.1).requires_grad_()
    rho = (0.9 * torch.rand(batch, dtype=torch.float64, generator=generator) - 0.45).requires_grad_()
    return loc, tau, rho


@pytest.mark.parametrize(("batch", "sample"), [((), ()), ((), (4,)), ((3,), ()), ((3,), (2, 4))])
def test_a_distributions_draws_are_the_formula(
    batch: tuple[int, ...], sample: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    loc, tau, rho = _batched(batch)
    x = torch.randn(*sample, *batch, 7, dtype=torch.float64)
    monkeypatch.setattr(distributions, "normals_from", lambda *_: x)
    ours = TridiagonalNormal(loc, tau, rho).rsample(sample)
    t = (1 - (1 - 4 * rho**2).sqrt()) / (2 * rho)
    noise = (x[..., 1:] + t.unsqueeze(-1) * x[..., :-1]) * (tau / (1 + t**2).sqrt()).unsqueeze(-1)
    literal = loc + loc.abs() * noise
    torch.testing.assert_close(ours, literal, rtol=1e-12, atol=1e-13)
    leaves = [loc, tau, rho]
    _assert_close(_gradients([ours], leaves), _gradients([literal], leaves), rtol=1e-9, atol=1e-9)


def test_a_distributions_draws_pass_gradcheck_twice() -> None:
    def function(*raw: Tensor) -> Tensor:
        return TridiagonalNormal(*raw, validate_args=False).rsample((2,), generator=SEED)

    assert torch.autograd.gradcheck(function, _batched((2,)))
    assert torch.autograd.gradgradcheck(function, _batched((2,)))


# where the numbers come from


def _drawn_by(source: object) -> dict[str, Callable[[], Tensor]]:
    tensors, delta, gamma = _inputs()
    law = TridiagonalNormal(LOC, 0.4, -0.45)
    return {
        "distribution": lambda: law.rsample((2,), generator=source),
        "plain": lambda: draw(tensors, delta, gamma, source, implementation="plain")[0][0],
        "cpu": lambda: draw(tensors, delta, gamma, source, implementation="cpu")[0][0],
    }


@pytest.mark.parametrize("kind", ["distribution", "plain", "cpu"])
def test_draws_come_from_the_seed_or_the_generator(kind: str) -> None:
    def by(source: object) -> Tensor:
        return _drawn_by(source)[kind]()

    assert torch.equal(by(3), by(3))
    assert torch.equal(by(3), by(Stream((3,))))
    assert torch.equal(by(3), by(Stream((3,)).generator(torch.device("cpu"))))
    assert not torch.equal(by(3), by(4))
    given = by(torch.Generator().manual_seed(3))
    torch.manual_seed(3)
    assert torch.equal(by(None), given)
    assert not torch.equal(by(None), given)
    with pytest.raises(TypeError, match=r"`generator` \(='3'\) must be a torch.Generator, an integer seed or None"):
        by("3")


@pytest.mark.parametrize("seeds", [torch.zeros(2), torch.zeros(3, dtype=torch.int64), torch.tensor(5)])
def test_seeds_for_kernels_are_one_whole_number_for_each_draw(seeds: Tensor) -> None:
    """The kernels would draw as many networks as there are seeds, whatever was asked for, by the bits of any number."""
    fine = torch.tensor([5, 7])
    assert seeds_of(fine, 2, fine.device) is fine
    with pytest.raises(
        TypeError, match=r"^`generator` \(=.*\) must be a tensor of 2 int64 on cpu, a seed for each draw"
    ):
        seeds_of(seeds, 2, seeds.device)


def test_the_guards_throw_coins_of_the_same_source() -> None:
    def guarded(source: object) -> Tensor:
        tensor, delta, gamma = torch.full((40,), 1e-9), torch.zeros(1), torch.zeros(1)
        guard_([tensor], delta, gamma, rule_of("paper"), source)
        return tensor

    state = torch.get_rng_state()
    assert torch.equal(guarded(3), guarded(Stream((3,))))
    assert not torch.equal(guarded(3), guarded(4))  # 40 coins alike: 1e-12
    assert torch.equal(torch.get_rng_state(), state)


# which implementation draws


class Labelled(Tensor):
    """A tensor of a kind of its own."""


def test_ordinary_tensors_on_a_cpu_are_drawn_by_its_own_function() -> None:
    for dtype in (torch.float32, torch.float64):
        tensors, delta, gamma = _inputs(dtype)
        assert implementation_for(tensors, delta, gamma) == "cpu"
        assert implementation_for([Parameter(t.detach()) for t in tensors], delta, gamma) == "cpu"


def test_other_tensors_are_drawn_by_plain_torch() -> None:
    tensors, delta, gamma = _inputs()
    mixed = [tensors[0].detach().float(), *tensors[1:]]
    labelled = [tensors[0].detach().as_subclass(Labelled), *tensors[1:]]
    for values in (mixed, labelled):
        assert implementation_for(values, delta, gamma) == "plain"
    for dtype in (torch.float16, torch.bfloat16):
        assert implementation_for(*_inputs(dtype)) == "plain"
    assert implementation_for([t.to("meta") for t in tensors], delta.to("meta"), gamma.to("meta")) == "plain"


def test_mixed_precision_is_drawn_tensor_by_tensor() -> None:
    tensors, delta, gamma = _inputs()
    mixed = [tensors[0].detach().float(), *tensors[1:]]
    weights, divergence = draw(mixed, delta, gamma, SEED, None, PRIORS["scalar"])
    assert [value.dtype for value in weights] == [torch.float32, *[torch.float64] * 3]
    _, exact = draw(tensors, delta, gamma, SEED, None, PRIORS["scalar"])
    torch.testing.assert_close(divergence.double(), exact, rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own, while it traces
def test_where_values_cannot_be_read_plain_torch_draws() -> None:
    tensors, delta, gamma = _inputs()
    chosen: list[str] = []

    def seen(value: Tensor) -> Tensor:
        chosen.append(implementation_for(tensors, delta, gamma))
        return draw(tensors, delta, gamma, None, None, PRIORS["standard"])[1] + value

    values = torch.tensor([0.0, 1.0], dtype=torch.float64)
    _, expected = draw(tensors, delta, gamma, None, None, PRIORS["standard"])
    mapped = torch.func.vmap(seen, randomness="different")(values)
    torch.testing.assert_close(mapped, expected + values, rtol=1e-12, atol=1e-12)
    assert chosen == ["plain"]
    torch.func.grad(lambda value: seen(value).sum())(values)
    assert chosen == ["plain", "plain"]
    compiled = torch.compile(
        lambda value: draw(tensors, delta, gamma, None, None, PRIORS["standard"])[1] + value,
        fullgraph=True,
        backend="eager",
    )
    torch.testing.assert_close(compiled(values), expected + values, rtol=1e-12, atol=1e-12)
    torch._dynamo.reset()


@pytest.mark.parametrize(("family", "expected"), [("tridiagonal", "cpu"), ("diagonal", "cpu"), ("mean_field", "plain")])
def test_a_family_says_what_draws_it(family: str, expected: str) -> None:
    tensors, _, _ = _inputs()
    made = FAMILIES[family](tensors, [0.1] * 4, [0.0] * 4)
    assert made.sampler(tensors) == expected
    assert made.bfloat16().sampler([tensor.detach().bfloat16() for tensor in tensors]) == "plain"


@pytest.mark.parametrize("family", ["tridiagonal", "diagonal"])
def test_a_test_may_choose_for_a_family(family: str) -> None:
    tensors, _, _ = _inputs()
    made = FAMILIES[family](tensors, [0.1] * 4, [0.0] * 4)
    made._implementation = "plain"
    assert made.sampler(tensors) == "plain"
    forced, _ = made.draw(tensors, SEED)
    made._implementation = None
    assert made.sampler(tensors) == "cpu"
    free, _ = made.draw(tensors, SEED)
    _assert_close(tuple(forced), tuple(free), rtol=1e-13, atol=1e-15)
