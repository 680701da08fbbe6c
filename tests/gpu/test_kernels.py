"""The kernels of the draw, against plain torch in float64 for the very same noise, and by statistics.

Standard normals can be read off a draw itself: with m = 1, τ = 1 and ρ = 0 it is 1 + x_i, and a second draw with ρ > 0
and the same seed gives x_0. So plain torch is given the kernels' own noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import kl_divergence

import tribayes as tb
from tests.compiling import draws_are_compiled
from tests.posterior.cases import law_of
from tribayes.posterior import Prior
from tribayes.posterior.draw import cuda, draw, implementation_for, layout, plain
from tribayes.posterior.draw.layout import BLOCK
from tribayes.posterior.prior import BestScale, TensorPrior

ONE = math.log(math.e - 1)  # δ of τ = 1
SEEDS = (3, 2**61)


def normals_of(means: list[Tensor], seeds: Tensor) -> list[list[Tensor]]:
    """x_0 … x_K of every tensor for every seed, float64."""
    ones = [torch.ones_like(mean) for mean in means]
    delta = torch.full((len(means),), ONE, device="cuda")
    single, _ = cuda.draw(ones, delta, torch.zeros_like(delta), seeds, len(seeds))
    mixed, _ = cuda.draw(ones, delta, torch.full_like(delta, 4.0), seeds, len(seeds))
    t = math.tanh(1.0)
    shrink = 1 / math.hypot(1.0, t)
    rows = []
    for sample in range(len(seeds)):
        row = []
        for a, b in zip(single, mixed, strict=True):
            x, y = (value[sample].reshape(-1).double() - 1 for value in (a, b))
            full = torch.cat([((y[0] / shrink - x[0]) / t).reshape(1), x])
            torch.testing.assert_close(shrink * (full[1:] + t * full[:-1]), y, rtol=0, atol=1e-5)
            row.append(full)
        rows.append(row)
    return rows


def inputs(strided: bool = False, uniform: bool = False) -> tuple[list[Tensor], Tensor, Tensor, list[TensorPrior]]:
    torch.manual_seed(0)
    means = [torch.randn(50, 3), torch.randn(4, 6, 3, 3), torch.randn(5), torch.randn(2 * BLOCK + 3), torch.randn(1)]
    means = [mean.cuda() for mean in means]
    if strided:
        means[1] = means[1].to(memory_format=torch.channels_last)
    delta = torch.tensor([-1.0, 0.3, -3.0, 0.0, 1.0], device="cuda")
    gamma = torch.tensor([-2.0, 0.5, 9.0, 0.0, -10.0], device="cuda")
    locs = [torch.tensor(0.0), torch.randn(216), torch.tensor(0.3), torch.tensor(0.0), torch.tensor(1.0)]
    scales = [torch.tensor(1.0), torch.tensor(0.5), torch.rand(5) + 0.5, torch.tensor(2.0), torch.tensor(1.0)]
    if uniform:
        locs, scales = ([value.mean() for value in values] for values in (locs, scales))
    priors = [TensorPrior(loc, scale).cuda() for loc, scale in zip(locs, scales, strict=True)]
    return means, delta, gamma, priors


def seeds_on_device(*numbers: int) -> Tensor:
    return torch.tensor(numbers or SEEDS, device="cuda")


@pytest.fixture
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


# values and gradients


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("count", [1, 3])
def test_values_and_gradients_are_plain_torchs_for_the_same_noise(strided: bool, uniform: bool, count: int) -> None:
    means, delta, gamma, priors = inputs(strided, uniform)
    seeds = torch.arange(count, device="cuda") + 2**40
    normals = normals_of(means, seeds)
    leaves = [leaf.requires_grad_() for leaf in (*means, delta, gamma)]
    doubles = [leaf.detach().double().requires_grad_() for leaf in leaves]
    drawn, divergence = cuda.draw(means, delta, gamma, seeds, count, priors)
    *wide, wide_delta, wide_gamma = doubles
    rounds = [plain.weights_from(wide, wide_delta, wide_gamma, row) for row in normals]
    exact = [torch.stack(column) for column in zip(*rounds, strict=True)]
    wide_priors = [TensorPrior(prior.loc.double(), prior.scale.double()) for prior in priors]
    exact_divergence = plain.divergence_of(wide, wide_delta, wide_gamma, wide_priors)
    for got, expected in zip(drawn, exact, strict=True):
        torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(divergence.double(), exact_divergence, rtol=1e-5, atol=1e-3)
    upstream = [torch.randn_like(value) for value in drawn]
    weight = torch.tensor(0.4, device="cuda")
    ours = torch.autograd.grad([*drawn, divergence], leaves, [*upstream, weight])
    theirs = torch.autograd.grad(
        [*exact, exact_divergence], doubles, [*(value.double() for value in upstream), weight.double()]
    )
    for got, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


def test_without_a_divergence_the_gradients_are_those_of_the_draw() -> None:
    means, delta, gamma, _ = inputs()
    seeds = seeds_on_device(7)
    (row,) = normals_of(means, seeds)
    leaves = [leaf.requires_grad_() for leaf in (*means, delta, gamma)]
    doubles = [leaf.detach().double().requires_grad_() for leaf in leaves]
    drawn, divergence = cuda.draw(means, delta, gamma, seeds)
    exact = plain.weights_from(doubles[:-2], *doubles[-2:], row)
    assert divergence is None
    ours = torch.autograd.grad(sum(value.pow(2).sum() for value in drawn), leaves)
    theirs = torch.autograd.grad(sum(value.pow(2).sum() for value in exact), doubles)
    for got, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


def test_the_divergence_alone_has_its_gradients() -> None:
    means, delta, gamma, priors = inputs()
    leaves = [leaf.requires_grad_() for leaf in (*means, delta, gamma)]
    doubles = [leaf.detach().double().requires_grad_() for leaf in leaves]
    _, divergence = cuda.draw(means, delta, gamma, 3, None, priors)
    wide_priors = [TensorPrior(prior.loc.double(), prior.scale.double()) for prior in priors]
    exact = plain.divergence_of(doubles[:-2], *doubles[-2:], wide_priors)
    for got, expected in zip(torch.autograd.grad(divergence, leaves), torch.autograd.grad(exact, doubles), strict=True):
        torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


@pytest.mark.parametrize("strided", [False, True])
def test_the_relative_divergence_is_plain_torchs(strided: bool) -> None:
    """Value and gradients, which are none for the means; the draw beside it is the draw alone."""
    means, delta, gamma, _ = inputs(strided)
    leaves = [leaf.requires_grad_() for leaf in (*means, delta, gamma)]
    doubles = [leaf.detach().double().requires_grad_() for leaf in leaves]
    priors = [BestScale() for _ in means]
    drawn, divergence = cuda.draw(means, delta, gamma, 3, None, priors)
    for one, other in zip(drawn, cuda.draw(means, delta, gamma, 3)[0], strict=True):
        assert torch.equal(one, other)
    exact = plain.divergence_of(doubles[:-2], *doubles[-2:], priors)
    torch.testing.assert_close(divergence.double(), exact, rtol=1e-5, atol=1e-3)
    ours = torch.autograd.grad(divergence, leaves)
    assert all((gradient == 0).all() for gradient in ours[:-2])
    for got, expected in zip(ours[-2:], torch.autograd.grad(exact, doubles[-2:]), strict=True):
        torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


def test_relative_and_other_priors_in_one_model() -> None:
    model = _model(prior={"0.*": tb.RelativePrior(), "*": tb.Prior(scale=0.5)})
    weights, divergence = model.sample_weights_and_kl(generator=3)
    torch.testing.assert_close(divergence, model.kl())
    assert torch.equal(weights["3.bias"], model.sample_weights(generator=3)["3.bias"])


def test_means_under_a_relative_prior_are_not_guarded() -> None:
    model = _model(prior=tb.RelativePrior())
    with torch.no_grad():
        model.module[3].weight.zero_()
        model.family.delta.fill_(-20.0)
    tb.stabilise_(model)
    assert (model.module[3].weight == 0).all()
    assert (model.family.delta == -10.0).all()
    weights, divergence = model.sample_weights_and_kl(generator=3)
    (weights["3.weight"].sum() + divergence).backward()
    assert model.module[3].weight.grad.isfinite().all()


def test_the_divergence_is_the_sum_of_the_registered_ones() -> None:
    means, delta, gamma, priors = inputs()
    _, divergence = cuda.draw(means, delta, gamma, seeds_on_device(1), None, priors)
    each = [
        kl_divergence(law_of(mean.double().reshape(-1), d, g), prior.distribution(torch.float64))
        for mean, d, g, prior in zip(means, delta.double(), gamma.double(), priors, strict=True)
    ]
    torch.testing.assert_close(divergence.double(), torch.stack(each).sum(), rtol=1e-5, atol=1e-3)


def test_the_divergence_of_three_weights_by_hand() -> None:
    prior = Prior(loc=0.5, scale=2.0).resolve("w", torch.ones(3, device="cuda"))
    zeros = torch.zeros(1, device="cuda")
    _, divergence = cuda.draw([torch.ones(3, device="cuda")], zeros, zeros, seeds_on_device(1), None, [prior])
    tau = math.log(2.0)
    # three independent N(1, τ²) against N(½, 4)
    assert divergence.item() == pytest.approx(3 * (math.log(2 / tau) + (tau**2 + 0.25) / 8 - 0.5), rel=1e-5)


def test_a_mean_of_zero_gets_a_finite_gradient() -> None:
    loc = torch.tensor([0.0, 1.0, 0.0], device="cuda", requires_grad=True)
    zeros = torch.zeros(1, device="cuda")
    (weights,), _ = cuda.draw([loc], zeros, zeros, 5)
    weights.sum().backward()
    assert loc.grad.isfinite().all()


def test_a_second_derivative_is_refused_and_not_zero() -> None:
    means, delta, gamma, _ = inputs()
    delta.requires_grad_()
    drawn, _ = cuda.draw(means, delta, gamma, seeds_on_device(), 2)
    (gradient,) = torch.autograd.grad(drawn[0].pow(2).sum(), delta, create_graph=True)
    with pytest.raises(RuntimeError, match=r"backward through tribayes\.draw_backward"):
        gradient.sum().backward()


# seeds


def test_a_draw_is_a_function_of_its_seed() -> None:
    means, delta, gamma, _ = inputs()
    both, _ = cuda.draw(means, delta, gamma, seeds_on_device(), 2)
    alone, _ = cuda.draw(means, delta, gamma, seeds_on_device(SEEDS[1]))
    for stack, single in zip(both, alone, strict=True):
        assert torch.equal(stack[1], single)
        assert (stack[0] != stack[1]).any()


@pytest.mark.parametrize("seed", [0, -1, 2**32, 2**64, 10**40])
def test_the_first_of_many_is_the_draw_alone(seed: int) -> None:
    means, delta, gamma, _ = inputs()
    three, _ = draw(means, delta, gamma, seed, 3)
    alone, _ = draw(means, delta, gamma, seed)
    assert all(torch.equal(stack[0], one) for stack, one in zip(three, alone, strict=True))
    assert all(not torch.equal(stack[i], stack[j]) for stack in three[:4] for i, j in ((0, 1), (0, 2), (1, 2)))


def test_a_seed_leaves_torchs_generators_alone() -> None:
    means, delta, gamma, _ = inputs()
    states = torch.get_rng_state(), torch.cuda.get_rng_state()
    draw(means, delta, gamma, 2**70, 3)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert torch.equal(torch.cuda.get_rng_state(), states[1])


def test_a_generator_and_torchs_own_decide_draws() -> None:
    means, delta, gamma, _ = inputs()
    given = draw(means, delta, gamma, torch.Generator("cuda").manual_seed(3))[0][0]
    again = draw(means, delta, gamma, torch.Generator("cuda").manual_seed(3))[0][0]
    assert torch.equal(given, again)
    torch.cuda.manual_seed(3)
    one, other = draw(means, delta, gamma)[0][0], draw(means, delta, gamma)[0][0]
    assert not torch.equal(one, other)
    torch.cuda.manual_seed(3)
    assert torch.equal(draw(means, delta, gamma)[0][0], one)


def test_the_noise_is_standard_normal_and_white() -> None:
    # ten z-scores within ±5: a correct generator fails with probability 6e-6
    x = normals_of([torch.ones(20_000_000, device="cuda")], seeds_on_device(1))[0][0]
    n = len(x)
    scores = [
        float(x.mean()) * math.sqrt(n),
        float(x.square().mean() - 1) * math.sqrt(n / 2),
        float(x.pow(3).mean()) * math.sqrt(n / 15),
        float(x.pow(4).mean() - 3) * math.sqrt(n / 96),
        *(float((x[lag:] * x[:-lag]).mean()) * math.sqrt(n) for lag in (1, 2, 3, 4, BLOCK)),
    ]
    tail = math.erfc(4 / math.sqrt(2))
    scores.append((float((x.abs() > 4).double().mean()) - tail) / math.sqrt(tail / n))
    assert max(abs(score) for score in scores) < 5, scores


def test_tensors_and_seeds_do_not_share_noise() -> None:
    # six correlations of 2,048 pairs within ±5 standard errors: fails by chance with probability 4e-6
    means = [torch.ones(BLOCK, device="cuda"), torch.ones(BLOCK, device="cuda")]
    first, second = normals_of(means, seeds_on_device(0, 1))
    rows = torch.stack([*first, *second])[:, 1:]
    products = (rows @ rows.T / BLOCK - torch.eye(4, device="cuda")).triu(1)
    assert products.abs().max() < 5 / math.sqrt(BLOCK)


@pytest.mark.parametrize("gamma", [-10.0, -1.0, 0.0, 10.0])
def test_moments_of_draws(gamma: float) -> None:
    """20 standardised moments of 60,000 draws within ±5.6: failure rate below 1e-6."""
    n = 60_000
    loc = torch.tensor([0.5, -2.0, 1e-3, 3.0, -0.7], device="cuda")
    raw = torch.tensor([-0.5], device="cuda"), torch.tensor([gamma], device="cuda")
    (draws,), _ = cuda.draw([loc], *raw, 11, n)
    law = law_of(loc.double(), raw[0][0].double(), raw[1][0].double())
    covariance, centred = law.covariance_matrix, draws.double() - law.mean
    variance = covariance.diagonal()
    z_mean = centred.mean(0) / (variance / n).sqrt()
    z_covariance = (centred.T @ centred / n - covariance) / (
        (covariance.square() + variance.outer(variance)) / n
    ).sqrt()
    upper = torch.triu_indices(5, 5)
    assert torch.cat([z_mean, z_covariance[upper[0], upper[1]]]).abs().max() < 5.6


# memory and precision


def test_the_order_of_memory_does_not_change_the_law() -> None:
    results = []
    for strided in (False, True):
        means, delta, gamma, priors = inputs(strided)
        leaves = [mean.detach().requires_grad_() for mean in means]
        drawn, divergence = cuda.draw(leaves, delta, gamma, seeds_on_device(), 2, priors)
        weights = torch.arange(216.0, device="cuda").reshape(4, 6, 3, 3)
        gradient = torch.autograd.grad((drawn[1] * weights).sum() + divergence, leaves[1])[0]
        results.append((drawn[1], gradient))
    (drawn, gradient), (drawn_strided, gradient_strided) = results
    assert torch.equal(drawn, drawn_strided)
    torch.testing.assert_close(gradient, gradient_strided, rtol=1e-5, atol=1e-4)
    assert drawn_strided[0].is_contiguous(memory_format=torch.channels_last)
    assert not drawn_strided[0].is_contiguous()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast_draws_are_the_rounded_ones(dtype: torch.dtype) -> None:
    means, delta, gamma, _ = inputs()
    single, _ = cuda.draw(means, delta, gamma, seeds_on_device(4))
    with torch.autocast("cuda", dtype):
        half, _ = cuda.draw(means, delta, gamma, seeds_on_device(4))
    assert all(torch.equal(got, want.to(dtype)) for got, want in zip(half, single, strict=True))


def test_what_the_kernels_cannot_read_plain_torch_draws() -> None:
    means, delta, gamma, _ = inputs()
    assert implementation_for(means, delta, gamma) == "triton"
    assert implementation_for(inputs(strided=True)[0], delta, gamma) == "triton"
    transposed = [means[0].T.contiguous().T, *means[1:]]
    wide = [mean.double() for mean in means]
    elsewhere = [means[0].cpu(), *means[1:]]
    for values in (transposed, wide, elsewhere):
        assert implementation_for(values, delta, gamma) == "plain"
    assert implementation_for(means, delta.double(), gamma.double()) == "plain"
    weights, _ = draw(transposed, delta, gamma, 3)
    assert [value.shape for value in weights] == [mean.shape for mean in means]


# what torch knows of the operation


def test_torch_finds_nothing_wrong_with_the_operation() -> None:
    means, delta, gamma, priors = inputs()
    leaves = [mean.requires_grad_() for mean in means]
    locs, scales = [prior.loc for prior in priors], [prior.scale for prior in priors]
    raw = delta.requires_grad_(), gamma.requires_grad_()
    for *given, relative in ((locs, scales, False), ([], [], False), ([], [], True)):
        arguments = (leaves, *raw, *given, seeds_on_device(), relative, torch.float32)
        torch.library.opcheck(torch.ops.tribayes.draw.default, arguments)


def test_vmap_over_seeds_is_the_loop() -> None:
    means, delta, gamma, _ = inputs()
    seeds = torch.tensor([[1], [2], [5]], device="cuda")
    mapped = torch.func.vmap(lambda s: cuda.draw(means, delta, gamma, s, 1)[0])(seeds)
    looped = [cuda.draw(means, delta, gamma, s, 1)[0] for s in seeds]
    for number, stack in enumerate(mapped):
        assert torch.equal(stack, torch.stack([one[number] for one in looped]))


def test_vmap_over_anything_else_is_refused() -> None:
    means, delta, gamma, _ = inputs()
    with pytest.raises(NotImplementedError, match="batched over its seeds only"):
        torch.func.vmap(lambda d: cuda.draw(means, d, gamma, seeds_on_device(), 2)[0])(torch.stack([delta, delta]))


@draws_are_compiled
@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_compiles_and_exports_as_one_node() -> None:
    means, delta, gamma, _ = inputs()

    class Drawing(nn.Module):
        def forward(self, d: Tensor, seeds: Tensor) -> list[Tensor]:
            return cuda.draw(means, d, gamma, seeds, 2)[0]

    seeds = seeds_on_device()
    expected = Drawing()(delta, seeds)
    compiled = torch.compile(Drawing(), fullgraph=True, backend="aot_eager")(delta, seeds)
    program = torch.export.export(Drawing(), (delta, seeds))
    for results in (compiled, program.module()(delta, seeds)):
        assert all(torch.equal(got, want) for got, want in zip(results, expected, strict=True))
    names = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert names.count(torch.ops.tribayes.draw.default) == 1


# models


def _model(**options: object) -> tb.BayesianModule:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10))
    return tb.to_bayesian(net, **{"prior": tb.Prior(), **options}).cuda()


@pytest.mark.parametrize("rule", ["paper", "closed_form"])
def test_guards_on_the_device_keep_their_bounds(rule: str) -> None:
    model = _model()
    assert model.sampler == "triton"
    with torch.no_grad():
        model.module[3].weight.fill_(1e-9)
        model.module[3].bias.fill_(-1e-9)
        model.module[0].weight.fill_(0.5)
        model.family.delta.fill_(-20.0)
        model.family.gamma.copy_(torch.tensor([0.01, -50.0, 1.0, 0.0]))
    tb.stabilise_(model, rule, generator=1)
    weight, gamma = model.module[3].weight, model.family.gamma
    assert torch.equal(weight.abs(), torch.full_like(weight, 1e-6))
    assert (model.module[0].weight == 0.5).all()
    floor = -4.600166 if rule == "paper" else -10.0
    torch.testing.assert_close(model.family.delta, torch.full_like(model.family.delta, floor))
    assert gamma[1] == -10.0
    assert gamma[2] == 1.0
    if rule == "paper":
        # 1,440 coins: a share of heads within ±5 standard errors fails by chance with probability 6e-7
        assert abs(float((weight > 0).float().mean()) - 0.5) < 5 * 0.5 / math.sqrt(weight.numel())
        torch.testing.assert_close(gamma[[0, 3]].abs(), torch.full_like(gamma[:2], 0.04000533))
    else:
        assert (weight > 0).all()
        assert (model.module[3].bias < 0).all()
        torch.testing.assert_close(gamma[[0, 3]], torch.tensor([0.01, 0.0], device="cuda"))


@draws_are_compiled
@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_model_draws_and_learns() -> None:
    model = _model()
    x = torch.randn(8, 1, 8, 8, device="cuda")
    out = torch.compile(model, fullgraph=True)(x)
    out.sum().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())


def test_capturing_before_a_first_draw_is_refused() -> None:
    model = _model()
    layout._kept.clear()  # an earlier model may have lain at the same addresses
    with pytest.raises(RuntimeError, match="run one first"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        model.sample_weights()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("count", [None, 3])
def test_every_draw_begins_where_fast_kernels_want_it(dtype: torch.dtype, count: int | None) -> None:
    # cuDNN takes weights that begin elsewhere by kernels 14 times as slow: a ResNet whose last layer came first
    net = nn.Sequential(nn.Linear(3, 5), nn.Conv2d(3, 7, 3), nn.Conv2d(7, 2, 1, bias=False), nn.Linear(1, 1))
    model = tb.to_bayesian(net).cuda().to(memory_format=torch.channels_last)
    with torch.autocast("cuda", torch.bfloat16, enabled=dtype == torch.bfloat16):
        drawn = model.sample_weights(count, generator=0)
    rows = [row for weights in drawn.values() for row in (weights if count else [weights])]
    assert {row.dtype for row in rows} == {dtype}
    assert all(row.data_ptr() % 16 == 0 for row in rows)
