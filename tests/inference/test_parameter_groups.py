"""Parameter groups: every parameter once; decay for the means alone; the paper's κ, which multiplies γ's gradient."""

import copy
import math
import re
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import nn

import tribayes as tb
from tests.networks import any_family, any_network, bayesian, inputs_of
from tribayes._errors import LARGEST_DECAY, LARGEST_RATE


def by_name(groups: list[dict[str, object]]) -> dict[str, dict[str, object]]:
    return {group["name"]: group for group in groups}


@any_network
@any_family
def test_every_parameter_that_learns_is_in_one_group(name: str, family: str) -> None:
    model = bayesian(name, family=family)
    grouped = [id(p) for group in tb.parameter_groups(model, lr=0.1) for p in group["params"]]
    assert len(grouped) == len(set(grouped))
    assert set(grouped) == {id(p) for p in model.parameters() if p.requires_grad}


def test_scales_and_correlations_have_groups_of_their_own() -> None:
    model = bayesian("MLP")
    groups = by_name(tb.parameter_groups(model, lr=0.01, scale_lr_multiplier=3.0))
    assert groups["means"] == {
        "name": "means",
        "params": list(model.module.parameters()),
        "lr": 0.01,
        "given_lr": 0.01,
    }
    assert groups["scales"] == {
        "name": "scales",
        "params": [model.family.delta],
        "lr": 0.03,
        "given_lr": 0.03,
        "weight_decay": 0.0,
    }
    assert groups["correlations"] == {
        "name": "correlations",
        "params": [model.family.gamma],
        "lr": 0.5,
        "given_lr": 0.5,
        "weight_decay": 0.0,
    }


def test_without_multipliers_they_have_a_rate_of_their_own_and_no_momentum() -> None:
    model = bayesian("MLP")
    groups = by_name(tb.parameter_groups(model, lr=0.5, scale_lr=0.02))
    own = {"lr": 0.02, "given_lr": 0.02, "weight_decay": 0.0, "steady": True}
    own |= {"momentum": 0.0, "dampening": 0.0, "nesterov": False}
    assert groups["scales"] == {"name": "scales", "params": [model.family.delta], **own}
    assert groups["correlations"] == {"name": "correlations", "params": [model.family.gamma], **own}


def test_weight_decay_is_of_the_means_and_of_nothing_else() -> None:
    model = nn.Sequential(nn.Linear(2, 3), tb.to_bayesian(nn.Sequential(nn.Linear(3, 1), nn.LayerNorm(1)), rho=0.0))
    noise = tb.Gaussian(learned=True)
    groups = by_name(tb.parameter_groups(model, lr=0.1, likelihood=noise, weight_decay=5e-4))
    random = [mean for _, mean in model[1].means()]
    others = [*model[0].parameters(), *model[1].module[1].parameters(), *noise.parameters()]
    assert {name: group["weight_decay"] for name, group in groups.items()} == {
        "means": 5e-4,
        "others": 0.0,
        "scales": 0.0,
        "correlations": 0.0,
    }
    assert [id(p) for p in groups["means"]["params"]] == [id(p) for p in random]
    assert [id(p) for p in groups["others"]["params"]] == [id(p) for p in others]
    torch.optim.AdamW(list(groups.values()))


@pytest.mark.parametrize(
    ("decay", "kind", "text"),
    [
        ("much", TypeError, "`weight_decay` (='much') must be a number; pass e.g. 5e-4."),
        (-1e-4, ValueError, "`weight_decay` (=-0.0001) must be finite and not negative; pass e.g. 5e-4."),
        (math.inf, ValueError, "`weight_decay` (=inf) must be finite and not negative; pass e.g. 5e-4."),
        (1e300, ValueError, "`weight_decay` (=1e+300) must be at most 1e+06; pass e.g. 5e-4."),
    ],
)
def test_a_bad_weight_decay_is_refused(decay: float, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        tb.parameter_groups(bayesian("MLP"), lr=0.1, weight_decay=decay)


@pytest.mark.parametrize(("family", "names"), [("diagonal", {"means", "scales"}), ("mean_field", {"means", "scales"})])
def test_a_family_without_correlation_has_no_group_for_it(family: str, names: set[str]) -> None:
    assert by_name(tb.parameter_groups(bayesian("MLP", family=family), lr=0.1)).keys() == names


def test_ordinary_layers_learn_with_the_means_and_a_learned_noise_beside_them_without_decay() -> None:
    model = nn.Sequential(nn.Linear(2, 3), tb.nn.Linear(3, 1), nn.Linear(1, 1).requires_grad_(False))
    noise = tb.Gaussian(learned=True)
    groups = by_name(tb.parameter_groups(model, lr=0.1, likelihood=noise))
    expected = [*model[0].parameters(), *model[1].module.parameters()]
    assert [id(p) for p in groups["means"]["params"]] == [id(p) for p in expected]
    assert [id(p) for p in groups["likelihood"]["params"]] == [id(p) for p in noise.parameters()]
    optimizer = torch.optim.AdamW(list(groups.values()), weight_decay=0.3)
    decays = {group["name"]: (group["lr"], group["weight_decay"]) for group in optimizer.param_groups}
    assert (decays["means"], decays["likelihood"]) == ((0.1, 0.3), (0.1, 0.0))


def test_a_frozen_network_leaves_a_group_out() -> None:
    model = bayesian("MLP")
    model.module.requires_grad_(False)
    assert by_name(tb.parameter_groups(model, lr=0.1)).keys() == {"scales", "correlations"}


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_larger_learning_rate_is_the_papers_multiplied_gradient(momentum: float) -> None:
    ours, papers = bayesian("MLP"), bayesian("MLP")
    groups = tb.parameter_groups(ours, lr=0.01, correlation_lr_multiplier=50.0)
    rates = torch.optim.SGD(groups, momentum=momentum)
    gradients = torch.optim.SGD(papers.parameters(), lr=0.01, momentum=momentum)
    elbo = tb.ELBO(tb.Gaussian(), data_size=3)
    for step in range(3):
        for model, optimizer in ((ours, rates), (papers, gradients)):
            torch.manual_seed(step)
            optimizer.zero_grad()
            elbo(model, inputs_of("MLP"), torch.zeros(3, 2, dtype=torch.float64)).loss.backward()
            if model is papers:
                model.family.gamma.grad *= 50.0
            optimizer.step()
    for one, other in zip(ours.parameters(), papers.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


def test_weight_decay_spares_scales_and_correlations() -> None:
    model = bayesian("MLP", rho=0.2)
    before = copy.deepcopy(model)
    optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.1), weight_decay=0.5)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    assert torch.equal(model.family.delta, before.family.delta)
    assert torch.equal(model.family.gamma, before.family.gamma)
    torch.testing.assert_close(model.module[0].weight, 0.95 * before.module[0].weight)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"lr": 0.0}, "`lr` (=0.0) must be finite and positive; it is a learning rate."),
        (
            {"lr": 0.1, "scale_lr": 0.0},
            "`scale_lr` (=0.0) must be finite and positive; it is a learning rate, such as 0.01.",
        ),
        ({"lr": math.inf}, "`lr` (=inf) must be finite and positive; it is a learning rate."),
        (
            {"lr": 0.1, "correlation_lr_multiplier": -1},
            "`correlation_lr_multiplier` (=-1) must be finite and positive; it multiplies the learning rate.",
        ),
        (
            {"lr": 0.1, "scale_lr_multiplier": 0},
            "`scale_lr_multiplier` (=0) must be finite and positive; it multiplies the learning rate.",
        ),
    ],
)
def test_rates_that_are_not_positive_are_refused(options: dict[str, float], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        tb.parameter_groups(bayesian("MLP"), **options)


@pytest.mark.parametrize(
    ("options", "argument", "value"),
    [
        ({"lr": 1e38}, "lr", "1e+38"),
        ({"lr": {"*": 1e300}}, "lr", "1e+300"),
        ({"lr": 0.1, "scale_lr": 1e31}, "scale_lr", "1e+31"),
        ({"lr": 1e29, "scale_lr_multiplier": 100}, "lr * scale_lr_multiplier", "1e+31"),
        ({"lr": 1e29, "scale_lr_multiplier": 1}, "lr * correlation_lr_multiplier", "5e+30"),
    ],
)
def test_rates_beyond_float32_are_refused(options: dict[str, Any], argument: str, value: str) -> None:
    """Optimizers ended in torch's words: "value cannot be converted to type float without overflow"."""
    with pytest.raises(ValueError, match=rf"^`{re.escape(f'{argument}` (={value})')} must be at most 1e\+30; it is a"):
        tb.parameter_groups(bayesian("MLP"), **options)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop"])
@pytest.mark.parametrize("weight_decay", [None, LARGEST_DECAY])
def test_the_largest_rates_end_in_our_words(kind: str, weight_decay: float | None) -> None:
    torch.manual_seed(0)
    model = tb.to_bayesian(nn.Linear(3, 2))
    rates = {"lr": LARGEST_RATE / 50, "correlation_lr_multiplier": 50, "weight_decay": weight_decay}
    optimizer = getattr(torch.optim, kind)(tb.parameter_groups(model, **rates))
    batches = [(torch.randn(6, 3), torch.arange(6) % 2)] * 20
    with suppress(tb.NonFiniteLoss):  # or a large loss, which is one
        tb.fit(model, tb.ELBO(tb.Categorical(), data_size=6), batches, optimizer, progress=False)
    assert all(value.isfinite().all() for value in model.parameters())


def test_a_plain_network_is_refused() -> None:
    text = "`model` (='Linear') must contain a BayesianModule; convert it first: tribayes.to_bayesian(net)."
    with pytest.raises(ValueError, match=re.escape(text)):
        tb.parameter_groups(nn.Linear(2, 2), lr=0.1)


# rates by name


def test_rates_by_name_are_those_of_the_first_pattern() -> None:
    model = nn.Sequential(nn.Linear(2, 3), tb.to_bayesian(nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2)), rho=0.0))
    noise = tb.Gaussian(learned=True)
    rates = {"*bias": 0.3, "1.0.*": 0.2, "likelihood.*": 0.05, "*": 0.1}
    groups = by_name(tb.parameter_groups(model, lr=rates, likelihood=noise))
    inner = model[1].module
    expected = {
        "means *bias": (0.3, [model[0].bias, inner[0].bias, inner[1].bias]),
        "means 1.0.*": (0.2, [inner[0].weight]),
        "means *": (0.1, [model[0].weight, inner[1].weight]),
        "likelihood likelihood.*": (0.05, [noise.raw_noise]),
        "scales": (0.01, [model[1].family.delta]),
        "correlations": (0.01, [model[1].family.gamma]),
    }
    assert list(groups) == list(expected)
    for name, (rate, parameters) in expected.items():
        assert groups[name]["lr"] == rate
        assert [id(p) for p in groups[name]["params"]] == [id(p) for p in parameters]


def test_rates_by_name_go_with_a_decay_of_the_means() -> None:
    model = tb.to_bayesian(nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2)), rho=0.0)
    groups = by_name(tb.parameter_groups(model, lr={"1.*": 0.3, "*": 0.1}, weight_decay=5e-4))
    found = {name: (group["lr"], group["weight_decay"]) for name, group in groups.items()}
    assert found["means *"] == (0.1, 5e-4)
    assert found["others 1.*"] == (0.3, 0.0)
    assert found.keys() == {"means *", "others 1.*", "scales", "correlations"}


def test_rates_by_name_know_nothing_of_compiling() -> None:
    model = tb.to_bayesian(nn.Sequential(nn.Linear(3, 2)))
    assert [g["name"] for g in tb.parameter_groups(torch.compile(model), lr={"0.bias": 0.3, "0.weight": 0.1})][:2] == [
        "means 0.bias",
        "means 0.weight",
    ]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"lr": {"2.*": 0.1, "9.*": 1.0}}, "`lr` (='9.*') must match a parameter; choose among 0.weight, 0.bias, "),
        ({"lr": {"2.*": 0.1}}, "must have a rate for '0.weight'; add a last pattern for the rest: '*'."),
        ({"lr": {"*": 0.0}}, "`lr` (=0.0) must be finite and positive; it is a learning rate."),
        (
            {"lr": {"*": 0.1}, "correlation_lr_multiplier": 50.0},
            "`lr` (={'*': 0.1}) must be one number where a multiplier of it is asked for: δ and γ have entries of all "
            "tensors; leave the multipliers out: `scale_lr` is the rate of δ and γ.",
        ),
    ],
)
def test_bad_rates_by_name_are_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        tb.parameter_groups(bayesian("MLP"), **options)


def test_a_model_in_which_nothing_learns_is_refused() -> None:
    text = "`model` (='BayesianModule') must have parameters that learn, but all are frozen; unfreeze what shall learn"
    with pytest.raises(ValueError, match=re.escape(text)):
        tb.parameter_groups(bayesian("MLP").requires_grad_(False), lr=0.1)
