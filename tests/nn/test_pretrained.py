"""Pretrained weights go in before or after conversion, under their own names."""

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.networks import NETWORKS, any_network, bayesian, inputs_of, same_tensors


def pretrained(name: str) -> dict[str, Tensor]:
    """A checkpoint of the plain network, of other weights than the table's and none of them zero."""
    net = NETWORKS[name].build().double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(parameter.abs() + 0.25)
    return net.state_dict()


@any_network
def test_names_are_the_plain_networks_own(name: str) -> None:
    model = bayesian(name)
    assert model.module.state_dict().keys() == NETWORKS[name].build().state_dict().keys()
    assert {f"module.{key}" for key in model.module.state_dict()} <= model.state_dict().keys()


@any_network
def test_loading_before_or_after_conversion_is_the_same(name: str) -> None:
    checkpoint = pretrained(name)
    before = NETWORKS[name].build().double()
    before.load_state_dict(checkpoint)
    after, by_method = bayesian(name), bayesian(name)
    after.module.load_state_dict(checkpoint)
    by_method.load_pretrained(checkpoint)
    for model in (tb.to_bayesian(before, tau=0.3), after, by_method):
        assert same_tensors(model.module.state_dict(), checkpoint)
        assert same_tensors(model.sample_weights(generator=0), after.sample_weights(generator=0))


@any_network
def test_the_loaded_network_predicts_as_the_plain_one(name: str) -> None:
    checkpoint, inputs = pretrained(name), inputs_of(name)
    plain, model = NETWORKS[name].build().double(), bayesian(name)
    plain.load_state_dict(checkpoint)
    model.load_pretrained(checkpoint)
    torch.testing.assert_close(model.apply_weights({}, inputs), plain(inputs), rtol=0, atol=1e-14)


def test_zeros_that_are_loaded_leave_zero_with_a_random_sign() -> None:
    # Failure rate: 200 coins all alike, 2 · 2^-200.
    model = tb.to_bayesian(nn.Linear(2, 200))
    checkpoint = {"weight": torch.ones(200, 2), "bias": torch.zeros(200)}
    torch.manual_seed(0)
    model.load_pretrained(checkpoint)
    assert torch.equal(model.module.weight, torch.ones(200, 2))
    assert torch.equal(model.module.bias.abs(), torch.full((200,), 1e-6))
    assert set(model.module.bias.sign().tolist()) == {-1.0, 1.0}
    assert model.kl().isfinite()


def test_the_guards_repair_zeros_loaded_past_load_pretrained() -> None:
    model = tb.to_bayesian(nn.Linear(2, 3), prior=tb.Prior())
    model.module.load_state_dict({"weight": torch.ones(3, 2), "bias": torch.zeros(3)})
    assert model.kl().isinf()
    tb.stabilise_(model)
    assert model.kl().isfinite()


def test_mean_field_keeps_zeros_that_are_loaded() -> None:
    model = tb.to_bayesian(nn.Linear(2, 3), family="mean_field")
    checkpoint = {"weight": torch.ones(3, 2), "bias": torch.zeros(3)}
    model.load_pretrained(checkpoint)
    assert same_tensors(model.module.state_dict(), checkpoint)


def test_a_checkpoint_with_other_names_is_refused_unless_asked_for() -> None:
    model = tb.to_bayesian(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match=r"Missing key\(s\) in state_dict: \"bias\""):
        model.load_pretrained({"weight": torch.ones(2, 2)})
    model.load_pretrained({"weight": torch.ones(2, 2)}, strict=False)
    assert torch.equal(model.module.weight, torch.ones(2, 2))
