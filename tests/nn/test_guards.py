"""The numerical guards on a model: the paper's pseudocode to the letter, and the closed form's own rule."""

import functools
import math
import re

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.networks import any_family, bayesian, inputs_of, same_tensors
from tests.oracle import paper

MEAN, DELTA, GAMMA, LARGEST = 1e-6, -4.600166, 0.04000533, 10.0  # the paper's bounds
AROUND = (0.0, 0.3, 0.999, 1.0, 1.001, 50.0)


def model_at(means: list[float], delta: float, gamma: float, dtype: torch.dtype) -> tb.BayesianModule:
    """A model of one tensor with these raw parameters, legal or not."""
    model = tb.to_bayesian(nn.Linear(len(means), 1, bias=False, dtype=dtype), prior=tb.Prior(), family="tridiagonal")
    with torch.no_grad():
        model.module.weight.copy_(torch.tensor([means], dtype=torch.float64))
        model.family.delta.fill_(delta)
        model.family.gamma.fill_(gamma)
    return model


def raw(model: tb.BayesianModule) -> Tensor:
    parts = [model.module.weight.flatten(), model.family.delta, model.family.gamma]
    return torch.cat(parts).detach().clone()


def signed(bound: float, factors: tuple[float, ...] = AROUND) -> list[float]:
    return [sign * factor * bound for factor in factors for sign in (1, -1)]


@pytest.mark.parametrize("delta", [-1e3, -5.0, math.nextafter(DELTA, -9), DELTA, -4.6, 0.0, 30.0])
@pytest.mark.parametrize("gamma", [*signed(GAMMA), *signed(LARGEST, (0.999, 1.0, 1.001))])
def test_the_papers_rule_is_its_pseudocode(delta: float, gamma: float) -> None:
    means = signed(MEAN) + signed(1.0, (0.3, 7.0))
    model = model_at(means, delta, gamma, torch.float64)
    tb.stabilise_(model, rule="paper", generator=0)
    heads, tails = (
        torch.tensor([*m, d, g]) for m, d, g in (paper.guard(means, delta, gamma, lambda s=s: s) for s in (True, False))
    )
    # Equal where the pseudocode throws no coin, and one of its two values where it does.
    assert ((raw(model) == heads) | (raw(model) == tails)).all()


def test_the_papers_coins_fall_on_both_sides() -> None:
    # Failure rate: 100 coins all alike, 2 · 2^-100, for the means and again for the correlations.
    layers = nn.ModuleList(nn.Linear(1, 1, bias=False) for _ in range(100))
    model = tb.to_bayesian(layers, prior=tb.Prior(), family="tridiagonal")
    with torch.no_grad():
        for _, mean in model.means():
            mean.fill_(1e-9)
        model.family.gamma.fill_(1e-9)
    tb.stabilise_(model, rule="paper", generator=0)
    means = torch.cat([mean.flatten() for _, mean in model.means()])
    for values, bound in ((means, MEAN), (model.family.gamma, GAMMA)):
        assert set(values.tolist()) == set(torch.tensor([bound, -bound]).tolist())


def test_the_papers_coins_follow_the_generator() -> None:
    def guarded(seed: int) -> Tensor:
        model = model_at([0.0] * 50, 0.0, 0.0, torch.float32)
        tb.stabilise_(model, rule="paper", generator=seed)
        return raw(model)

    assert torch.equal(guarded(0), guarded(0))
    assert not torch.equal(guarded(0), guarded(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("gamma", [GAMMA, LARGEST])
def test_a_value_on_the_papers_bound_is_legal(dtype: torch.dtype, sign: int, gamma: float) -> None:
    model = model_at([sign * MEAN] * 20, DELTA, sign * gamma, dtype)
    before = raw(model)
    tb.stabilise_(model, rule="paper", generator=0)
    assert torch.equal(raw(model), before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_closed_forms_rule_keeps_signs_and_legal_values(dtype: torch.dtype) -> None:
    means = signed(MEAN) + signed(1.0, (0.3, 7.0))
    model = model_at(means, 0.0, 0.0, dtype)
    before = raw(model)
    tb.stabilise_(model)
    after = raw(model)
    assert torch.equal(after.signbit(), before.signbit())  # also of 0.0 and -0.0
    legal = before.abs() >= MEAN
    legal[-2:] = True  # δ = 0 and γ = 0 are ordinary points
    assert torch.equal(after[legal], before[legal])
    assert torch.equal(after[~legal].abs(), torch.full_like(after[~legal], MEAN))


@pytest.mark.parametrize(
    ("delta", "gamma", "expected"),
    [
        (-1e3, 1e3, (-10.0, 10.0)),
        (-10.5, -10.5, (-10.0, -10.0)),
        (-10.0, 10.0, (-10.0, 10.0)),
        (-9.5, 9.5, (-9.5, 9.5)),
        (40.0, 1e-12, (40.0, 1e-12)),
    ],
)
def test_the_closed_forms_rule_bounds_scale_and_correlation(
    delta: float, gamma: float, expected: tuple[float, float]
) -> None:
    model = model_at([1.0], delta, gamma, torch.float64)
    tb.stabilise_(model)
    assert (model.family.delta.item(), model.family.gamma.item()) == expected


@pytest.mark.parametrize("rule", ["closed_form", "paper"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_guarding_twice_is_guarding_once(rule: str, dtype: torch.dtype) -> None:
    model = model_at(signed(MEAN), -1e3, 1e3, dtype)
    tb.stabilise_(model, rule=rule, generator=0)
    once = raw(model)
    tb.stabilise_(model, rule=rule, generator=1)
    assert torch.equal(raw(model), once)


@any_family
@pytest.mark.parametrize("rule", ["closed_form", "paper"])
@pytest.mark.parametrize("delta", [-1e6, 1e2])
@pytest.mark.parametrize("gamma", [-1e6, 0.0, 1e6])
def test_behind_the_guards_everything_is_finite(family: str, rule: str, delta: float, gamma: float) -> None:
    model = bayesian("MLP", family=family).float()
    with torch.no_grad():
        model.module[0].weight.zero_()
        for parameter in model.family.scale_parameters():
            parameter.fill_(delta)
        for parameter in model.family.correlation_parameters():
            parameter.fill_(gamma)
    tb.stabilise_(model, rule=rule, generator=0)
    loss = model(inputs_of("MLP").float()).square().sum() + model.kl()
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@any_family
def test_a_model_in_range_is_left_alone(family: str) -> None:
    model = bayesian("MLP", family=family)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    tb.stabilise_(model)
    assert same_tensors(model.state_dict(), before)


def test_every_bayesian_part_of_a_model_is_guarded() -> None:
    guarded = functools.partial(tb.nn.Linear, prior=tb.Prior())
    net = nn.Sequential(*(kind(2, 2) for kind in (guarded, nn.Linear, guarded)))
    with torch.no_grad():
        for layer in (net[0].module, net[1], net[2].module):
            layer.weight.zero_()
    tb.stabilise_(net)
    assert net[0].module.weight.all()
    assert net[2].module.weight.all()
    assert not net[1].weight.any()  # an ordinary layer is none of its business


def test_an_unknown_rule_is_refused() -> None:
    text = "`rule` (='papers') must be one of ['closed_form', 'paper']; correct the word."
    with pytest.raises(ValueError, match=re.escape(text)):
        tb.stabilise_(bayesian("MLP"), rule="papers")
