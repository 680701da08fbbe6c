"""`sampler="fused"` in a model: the same law, all tensors at once, and clear words where it cannot be."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

import tribayes as tb
from tribayes.nn.fused import counter_seed, fused_draw_from
from tribayes.nn.holding import holding


def _net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2))


def _model(family: str = "tridiagonal", **options: object) -> tb.BayesianModule:
    return tb.to_bayesian(
        _net(), sampler="fused", family=family, rho=-0.3 if family == "tridiagonal" else 0.0, **options
    )


@pytest.mark.parametrize("family", ["tridiagonal", "diagonal"])
def test_draws_have_the_mean_and_the_deviation_of_the_law(family: str) -> None:
    # 4,000 draws of 41 weights: a correct sampler fails with probability below 1e-5
    model = _model(family, tau=0.3)
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


@pytest.mark.parametrize("family", ["tridiagonal", "diagonal"])
def test_the_divergence_comes_with_the_draw(family: str) -> None:
    model = _model(family, prior=tb.Prior(scale=0.5))
    weights, divergence = model.sample_weights_and_kl(generator=7)
    torch.testing.assert_close(divergence, model.kl())
    alone = model.sample_weights(generator=7)
    assert all(torch.equal(weights[name], alone[name]) for name in alone)
    leaves = list(model.parameters())
    ours, theirs = torch.autograd.grad(divergence, leaves), torch.autograd.grad(model.kl(), leaves)
    for got, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def test_the_plain_sampler_gives_both_too() -> None:
    model = tb.to_bayesian(_net())
    weights, divergence = model.sample_weights_and_kl(generator=7)
    assert torch.equal(divergence, model.kl())
    assert torch.equal(weights["0.weight"], model.sample_weights(generator=7)["0.weight"])


@pytest.mark.parametrize("samples", [1, 3])
def test_the_objective_takes_the_divergence_from_the_draw(samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model()
    x, y = torch.randn(6, 1, 4, 4), torch.randint(0, 2, (6,))
    elbo = tb.ELBO(tb.Categorical(), data_size=10, samples=samples)
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


def test_a_model_trains() -> None:
    model = _model()
    x, y = torch.randn(64, 1, 4, 4), torch.randint(0, 2, (64,))
    elbo = tb.ELBO(tb.Categorical(), data_size=64, kl_weight=0.01)
    optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.02))
    history = tb.fit(model, elbo, [(x, y)], optimizer, epochs=60, progress=False)
    assert history.nll[-1] < 0.6 * history.nll[0]


@pytest.mark.parametrize("rule", ["paper", "closed_form"])
def test_guards_hold(rule: str) -> None:
    model = _model()
    with torch.no_grad():
        for _, mean in model.means():
            mean.view(-1)[0] = -1e-8
        model.family.delta.fill_(-50.0)
        model.family.gamma.copy_(torch.tensor([0.001, -50.0, 1.0, 0.0]))
    tb.stabilise_(model, rule, generator=0)
    plain = tb.to_bayesian(_net())
    for _, mean in model.means():
        assert mean.abs().min() >= 1e-6 * 0.999
    floor = -4.600166 if rule == "paper" else -10.0
    assert (model.family.delta == floor).all()
    smallest = 0.04000533 if rule == "paper" else 0.0
    assert (model.family.gamma.abs() >= smallest * 0.999).all()
    assert model.family.gamma[1] == -10.0
    assert model.family.gamma[2] == 1.0
    assert plain.sampler == "torch"


def test_draws_can_be_held_and_applied() -> None:
    model = _model()
    draw = model.sample_weights(generator=1)
    x = torch.randn(5, 1, 4, 4)
    with holding(model, [draw]):
        assert torch.equal(model(x), model.apply_weights(draw, x))


def test_the_draws_of_one_seed_differ_and_the_first_is_the_draw_alone() -> None:
    model = tb.to_bayesian(nn.Linear(3, 4), sampler="fused")
    three, alone = model.sample_weights(3, generator=2**63 - 5), model.sample_weights(generator=2**63 - 5)
    assert all(torch.equal(three[name][0], alone[name]) for name in alone)
    assert len(three["weight"][:, 0, 0].unique()) == 3
    following = model.sample_weights(generator=2**63 - 4)
    assert not torch.equal(following["weight"], three["weight"][1])  # the next seed is not the next draw


def test_a_draw_of_a_seed_in_a_tensor_is_that_of_the_number() -> None:
    model = tb.to_bayesian(nn.Linear(3, 4), sampler="fused")
    expected = model.sample_weights(generator=2**63 - 5)
    found = fused_draw_from(model, torch.tensor([counter_seed(2**63 - 5)]))
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_what_is_no_seed_is_refused() -> None:
    with pytest.raises(TypeError, match=r"`generator` \(=True\) must be a torch\.Generator, an integer seed or None"):
        tb.to_bayesian(nn.Linear(3, 4), sampler="fused").sample_weights(generator=True)


def test_under_autocast_the_draws_come_in_its_dtype() -> None:
    model = _model()
    with torch.autocast("cpu", torch.bfloat16):
        draw = model.sample_weights(generator=1)
        out = model(torch.randn(5, 1, 4, 4))
    assert {value.dtype for value in draw.values()} == {torch.bfloat16}
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in model.parameters())


def test_copies_and_pickles_keep_the_sampler() -> None:
    model = _model()
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.sampler == "fused"
        ours, theirs = twin.sample_weights(generator=3), model.sample_weights(generator=3)
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`sampler`.*'fast'.*be one of \['torch', 'fused'\]"):
        tb.to_bayesian(_net(), sampler="fast")


def test_mean_field_is_refused() -> None:
    with pytest.raises(ValueError, match='be "torch" for the family MeanField'):
        tb.to_bayesian(_net(), family="mean_field", sampler="fused")


def test_other_dtypes_are_refused_when_drawn() -> None:
    model = _model().double()
    with pytest.raises(ValueError, match=r"float32 means on one device.*float64"):
        model.sample_weights()


def test_other_memory_is_refused_when_drawn() -> None:
    net = nn.Linear(3, 2, bias=False)
    net.weight = nn.Parameter(torch.randn(3, 2).T)
    with pytest.raises(ValueError, match="row-major or channels_last"):
        tb.to_bayesian(net, sampler="fused").sample_weights()
