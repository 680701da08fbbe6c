"""`to_deterministic`: the plain network at the means, as a copy, wherever Bayesian parts sit in a model."""

import torch
from torch import nn

import tribayes as tb
from tests.networks import NETWORKS, any_family, any_network, bayesian, inputs_of, same_tensors


@any_network
@any_family
def test_the_plain_network_comes_back_with_the_means(name: str, family: str) -> None:
    model, inputs = bayesian(name, family=family), inputs_of(name)
    plain = tb.to_deterministic(model)
    assert type(plain) is type(NETWORKS[name].build())
    assert plain.state_dict().keys() == NETWORKS[name].build().state_dict().keys()
    assert same_tensors(plain.state_dict(), model.module.state_dict())
    torch.testing.assert_close(plain(inputs), model.apply_weights({}, inputs), rtol=0, atol=1e-14)


def test_the_plain_network_is_a_copy() -> None:
    model = bayesian("MLP")
    plain = tb.to_deterministic(model)
    with torch.no_grad():
        plain[0].weight.zero_()
    assert model.module[0].weight.all()
    tb.to_bayesian(plain)  # and may be converted again


def test_bayesian_parts_of_a_model_are_unwrapped_at_any_depth() -> None:
    model = nn.Sequential(tb.nn.Linear(2, 3), nn.Sequential(nn.ReLU(), tb.nn.Linear(3, 1)))
    plain = tb.to_deterministic(model)
    inputs = torch.randn(4, 2)
    assert not any(isinstance(part, tb.BayesianModule) for part in plain.modules())
    assert torch.equal(plain(inputs), model[1][1].module(torch.relu(model[0].module(inputs))))


def test_a_shared_bayesian_layer_is_unwrapped_under_all_its_names() -> None:
    layer = tb.nn.Linear(2, 2)
    plain = tb.to_deterministic(nn.Sequential(layer, nn.ReLU(), layer))
    assert type(plain[0]) is type(plain[2]) is nn.Linear
    assert plain[0] is plain[2]
