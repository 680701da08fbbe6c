"""What a model does with the draw: weights by name, the divergence with them, and whichever implementation draws."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.networks import any_family, same_tensors
from tribayes.nn.stage import Stage, sample_model
from tribayes.posterior import Stream

PRIORS = {
    "standard": None,
    "scalar": tb.Prior(loc=0.3, scale=0.5),
    "scale alone": tb.Prior(scale=0.5),
    "scale per weight": {"0.weight": tb.Prior(scale=torch.rand(4, 3) + 0.5)},
    "pretrained": tb.Prior(loc="pretrained", scale=0.1),
}


def _model(family: str = "tridiagonal", prior: object = tb.Prior(), rho: float = -0.3) -> tb.BayesianModule:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    return tb.to_bayesian(net, family=family, prior=prior, tau=0.4, rho=rho if family == "tridiagonal" else 0.0)


def _convolutional(family: str = "tridiagonal", **options: object) -> tb.BayesianModule:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2))
    rho = -0.3 if family == "tridiagonal" else 0.0
    return tb.to_bayesian(net, family=family, rho=rho, **{"prior": tb.Prior(), **options})


def _apart(model: tb.BayesianModule) -> tuple[dict[str, Tensor], Tensor]:
    return model.sample_weights(generator=5), model.kl()


# a draw and its divergence together


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
@any_family
def test_values_and_gradients_are_those_of_both_apart(family: str, prior: object) -> None:
    model = _model(family, prior)
    leaves = list(model.parameters())
    results = []
    for weights, divergence in (model.sample_weights_and_kl(generator=5), _apart(model)):
        loss = sum(value.pow(3).sum() for value in weights.values()) + 0.7 * divergence
        results.append((weights, divergence, torch.autograd.grad(loss, leaves)))
    (ours, divergence, gradients), (apart, plain_divergence, plain_gradients) = results
    assert same_tensors(ours, apart)
    torch.testing.assert_close(divergence, plain_divergence, rtol=1e-12, atol=1e-12)
    for got, expected in zip(gradients, plain_gradients, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("rho", [0.0, 0.49, -0.4999])
def test_the_ends_of_the_correlation_are_ordinary(rho: float) -> None:
    model = _model(rho=rho)
    leaves = list(model.parameters())
    ours = torch.autograd.grad(model.sample_weights_and_kl(generator=5)[1], leaves)
    for got, expected in zip(ours, torch.autograd.grad(model.kl(), leaves), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-10)


def test_second_derivatives_are_those_of_both_apart() -> None:
    model = _model(prior=tb.Prior(loc=0.2, scale=0.7))
    leaves = list(model.parameters())
    hessians = []
    for weights, divergence in (model.sample_weights_and_kl(generator=5), _apart(model)):
        loss = sum(value.pow(3).sum() for value in weights.values()) + 0.7 * divergence
        first = torch.autograd.grad(loss, leaves, create_graph=True)
        hessians.append(torch.autograd.grad(sum(part.pow(2).sum() for part in first), leaves))
    for got, expected in zip(*hessians, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


def test_a_weight_without_a_gradient_gets_its_share_of_the_divergence() -> None:
    model = _model()
    weights, divergence = model.sample_weights_and_kl(generator=5)
    (weights["0.bias"].sum() + divergence).backward()
    for _, mean in model.means():
        assert mean.grad is not None
        assert (mean.grad != 0).all()


def test_a_frozen_mean_stays_without_a_gradient() -> None:
    net = nn.Linear(3, 2)
    net.weight.requires_grad_(False)
    model = tb.to_bayesian(net, where="*", prior=tb.Prior())
    weights, divergence = model.sample_weights_and_kl(generator=5)
    (weights["weight"].sum() + divergence).backward()
    assert net.weight.grad is None
    assert net.bias.grad is not None


@any_family
@pytest.mark.parametrize("samples", [1, 2])
def test_the_objective_is_that_of_both_apart(samples: int, family: str) -> None:
    model = _model(family)
    x, y = torch.randn(6, 3).double(), torch.randint(0, 2, (6,))
    elbo = tb.ELBO(tb.Categorical(), data_size=10, kl_weight=1.0, samples=samples)
    torch.manual_seed(3)
    terms = elbo(model, x, y)
    torch.manual_seed(3)
    outputs = [model(x) for _ in range(samples)]
    nll = torch.stack([nn.functional.cross_entropy(out, y) for out in outputs]).mean()
    torch.testing.assert_close(terms.nll, nll, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(terms.kl, model.kl(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("family", ["tridiagonal", "diagonal"])
@pytest.mark.parametrize("samples", [1, 3])
def test_the_objective_takes_the_divergence_from_the_draw(
    samples: int, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _convolutional(family)
    x, y = torch.randn(6, 1, 4, 4), torch.randint(0, 2, (6,))
    elbo = tb.ELBO(tb.Categorical(), data_size=10, kl_weight=1.0, samples=samples)
    expected = model.kl()
    monkeypatch.setattr(type(model.family), "divergence", lambda *_: pytest.fail("computed a second time"))
    torch.manual_seed(3)
    terms = elbo(model, x, y)
    torch.testing.assert_close(terms.kl, expected)
    torch.manual_seed(3)
    draws = [model.sample_weights() for _ in range(samples)]
    outputs = torch.stack([model.apply_weights(draw, x) for draw in draws])
    torch.testing.assert_close(terms.outputs, outputs if samples > 1 else outputs[0])
    torch.testing.assert_close(terms.loss, terms.nll + terms.kl / 10)


def test_tensors_of_two_precisions_are_drawn_all_the_same() -> None:
    mixed = tb.to_bayesian(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1).double()))
    assert mixed.sampler == "plain"
    weights, divergence = mixed.sample_weights_and_kl(generator=1)
    assert weights["0.weight"].dtype == torch.float32
    assert weights["1.weight"].dtype == torch.float64
    torch.testing.assert_close(divergence, mixed.kl())


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own, while it traces
def test_both_come_under_vmap_and_compilation_too() -> None:
    model = _model()
    shifts = torch.tensor([0.0, 1.0], dtype=torch.float64)
    mapped = torch.func.vmap(lambda shift: model.sample_weights_and_kl()[1] + shift, randomness="different")(shifts)
    torch.testing.assert_close(mapped, model.kl() + shifts, rtol=1e-12, atol=1e-12)
    compiled = torch.compile(lambda: model.sample_weights_and_kl()[1], fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(), model.kl(), rtol=1e-12, atol=1e-12)
    torch._dynamo.reset()


# which implementation draws a model


@pytest.mark.parametrize(
    ("family", "dtype", "expected"),
    [
        ("tridiagonal", torch.float32, "cpu"),
        ("tridiagonal", torch.float64, "cpu"),
        ("tridiagonal", torch.bfloat16, "plain"),
        ("diagonal", torch.float32, "cpu"),
        ("diagonal", torch.bfloat16, "plain"),
        ("mean_field", torch.float32, "plain"),
    ],
)
def test_the_sampler_follows_from_family_and_precision(family: str, dtype: torch.dtype, expected: str) -> None:
    model = _convolutional(family).to(dtype)
    assert model.sampler == expected
    assert {value.dtype for value in model.sample_weights(generator=0).values()} == {dtype}


def test_the_sampler_is_not_an_option() -> None:
    text = "has no option 'sampler'; choose among prior, tau, rho, family, where, generator and dry_run"
    with pytest.raises(TypeError, match=text):
        tb.to_bayesian(nn.Linear(3, 2), sampler="fused")
    with pytest.raises(AttributeError):
        tb.to_bayesian(nn.Linear(3, 2)).sampler = "plain"


def test_the_sampler_moves_with_the_model() -> None:
    model = _convolutional()
    assert model.to("meta").sampler == "plain"


@pytest.mark.parametrize("implementation", ["plain", "cpu"])
@pytest.mark.parametrize("family", ["tridiagonal", "diagonal", "mean_field"])
def test_draws_have_the_mean_and_the_deviation_of_the_law(family: str, implementation: str) -> None:
    # 4,000 draws of 41 weights: a correct sampler fails with probability below 1e-5
    model = _convolutional(family, tau=0.3)
    model.family._implementation = implementation
    with torch.no_grad():
        draws, laws = model.sample_weights(4000, generator=0), model.laws()
        for name, stack in draws.items():
            mean, std = laws[name].mean, laws[name].variance.sqrt()
            flat = stack.reshape(4000, -1)
            assert ((flat.mean(0) - mean).abs() < 5.5 * std / 4000**0.5).all()
            assert ((flat.std(0) / std - 1).abs() < 5.5 / 8000**0.5).all()
            scaled = (flat - mean) / std
            if flat.shape[1] > 1:
                neighbours = (scaled[:, 1:] * scaled[:, :-1]).mean(0)
                expected = -0.3 if family == "tridiagonal" else 0.0
                assert ((neighbours - expected).abs() < 5.5 * (1 + expected**2) ** 0.5 / 4000**0.5).all()


@pytest.mark.parametrize("implementation", ["plain", "cpu"])
@pytest.mark.parametrize("rule", ["paper", "closed_form"])
def test_guards_hold(rule: str, implementation: str) -> None:
    model = _convolutional()
    model.family._implementation = implementation
    with torch.no_grad():
        for _, mean in model.means():
            mean.view(-1)[0] = -1e-8
        model.family.delta.fill_(-50.0)
        model.family.gamma.copy_(torch.tensor([0.001, -50.0, 1.0, 0.0]))
    tb.stabilise_(model, rule, generator=0)
    for _, mean in model.means():
        assert mean.abs().min() >= 1e-6 * 0.999
    floor = -4.600166 if rule == "paper" else -10.0
    assert (model.family.delta == floor).all()
    smallest = 0.04000533 if rule == "paper" else 0.0
    assert (model.family.gamma.abs() >= smallest * 0.999).all()
    assert model.family.gamma[1] == -10.0
    assert model.family.gamma[2] == 1.0


@any_family
def test_a_model_trains(family: str) -> None:
    model = _convolutional(family)
    x, y = torch.randn(64, 1, 4, 4), torch.randint(0, 2, (64,))
    elbo = tb.ELBO(tb.Categorical(), data_size=64, kl_weight=0.01)
    optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.02))
    history = tb.fit(model, elbo, [(x, y)], optimizer, epochs=60, progress=False)
    assert history.nll[-1] < 0.6 * history.nll[0]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_and_pickles_keep_the_sampler(duplicate: object) -> None:
    model = _convolutional()
    model.family._implementation = "plain"
    twin = duplicate(model)
    assert twin.sampler == "plain"
    assert same_tensors(twin.sample_weights(generator=3), model.sample_weights(generator=3))


# draws as values


def test_a_draw_on_stage_is_the_draw_applied() -> None:
    model = _convolutional()
    draw = model.sample_weights(generator=1)
    x = torch.randn(5, 1, 4, 4)
    assert torch.equal(Stage(model).run([draw], x), model.apply_weights(draw, x))
    wrapped = nn.Sequential(nn.Identity(), model)
    assert torch.equal(Stage(wrapped).run([draw], x), model.apply_weights(draw, x))
    assert torch.equal(Stage(model, evaluation=True).run([draw], x), model.apply_weights(draw, x))


def test_a_stage_in_evaluation_leaves_mode_and_buffers_alone() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    model = tb.to_bayesian(net)
    draw, x = model.sample_weights(generator=0), torch.randn(7, 3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    stage = Stage(model, evaluation=True)
    assert torch.equal(stage.run([draw], x), stage.run([draw], x))  # no dropout
    assert same_tensors(model.state_dict(), before)
    assert all(module.training for module in model.modules())
    Stage(model).run([draw], x)
    assert net[1].num_batches_tracked == 1


def test_a_stage_follows_the_mode_of_its_model() -> None:
    model = nn.Sequential(tb.nn.Linear(3, 200), nn.Dropout(0.5))
    stage, draw, x = Stage(model), [model[0].sample_weights(generator=0)], torch.ones(1, 3)
    assert (stage.run(draw, x) == 0).any()  # 200 units all kept: 2^-200
    model.eval()
    assert (stage.run(draw, x) != 0).all()


@any_family
def test_the_draws_of_one_seed_differ_and_the_first_is_the_draw_alone(family: str) -> None:
    model = tb.to_bayesian(nn.Linear(3, 4), family=family)
    three, alone = model.sample_weights(3, generator=2**63 - 5), model.sample_weights(generator=2**63 - 5)
    assert all(torch.equal(three[name][0], alone[name]) for name in alone)
    assert len(three["weight"][:, 0, 0].unique()) == 3
    following = model.sample_weights(generator=2**63 - 4)
    assert not torch.equal(following["weight"], three["weight"][1])  # the next seed is not the next draw


def test_the_modules_of_a_model_have_streams_of_their_own() -> None:
    layer = tb.nn.Linear(3, 4)
    net = nn.Sequential(layer, copy.deepcopy(layer))
    one, other = sample_model(net, Stream((0, 7)))
    assert all((one[name] != other[name]).all() for name in one)
    again, _ = sample_model(net, Stream((0, 7)))
    assert same_tensors(one, again)
    only, nothing = sample_model(net, Stream((0, 7)), [{"bias"}, set()])
    assert same_tensors(only, {"bias": one["bias"]})
    assert nothing == {}


@pytest.mark.parametrize("source", [True, 1.0, "0", None.__class__])
def test_what_is_no_seed_is_refused(source: object) -> None:
    with pytest.raises(TypeError, match=r"`generator` \(=.*\) must be a torch\.Generator, an integer seed or None"):
        tb.to_bayesian(nn.Linear(3, 4)).sample_weights(generator=source)


def test_under_autocast_a_cpu_draws_in_single_precision() -> None:
    model = _convolutional()
    with torch.autocast("cpu", torch.bfloat16):
        draw = model.sample_weights(generator=1)
        out = model(torch.randn(5, 1, 4, 4))
    assert {value.dtype for value in draw.values()} == {torch.float32}
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in model.parameters())


def test_memory_in_another_order_has_the_same_draws() -> None:
    net = nn.Linear(3, 2, bias=False)
    other = nn.Linear(3, 2, bias=False)
    other.weight = nn.Parameter(net.weight.detach().T.contiguous().T)
    assert not other.weight.is_contiguous()
    ours, theirs = (tb.to_bayesian(one, rho=0.3).sample_weights(generator=2)["weight"] for one in (net, other))
    assert torch.equal(ours, theirs)
