"""Drop-in layers: torch's arguments, `to_bayesian`'s keywords, and nothing of their own."""

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.networks import same_tensors
from tribayes.nn.convert import bayesian_modules

LAYERS = {
    "Linear": ((3, 2), (4, 3)),
    "Conv1d": ((2, 3, 2), (1, 2, 4)),
    "Conv2d": ((2, 3, 2), (1, 2, 4, 4)),
    "Conv3d": ((2, 3, 2), (1, 2, 3, 3, 3)),
    "ConvTranspose1d": ((2, 3, 2), (1, 2, 4)),
    "ConvTranspose2d": ((2, 3, 2), (1, 2, 4, 4)),
    "ConvTranspose3d": ((2, 3, 2), (1, 2, 3, 3, 3)),
    "Embedding": ((5, 3), None),
}

any_layer = pytest.mark.parametrize("name", LAYERS)


def inputs_for(name: str) -> Tensor:
    shape = LAYERS[name][1]
    return torch.tensor([0, 4, 1]) if shape is None else torch.randn(shape)


def build(name: str, **options: object) -> tb.BayesianModule:
    torch.manual_seed(0)
    return getattr(tb.nn, name)(*LAYERS[name][0], **options)


def test_every_layer_is_in_the_table() -> None:
    assert set(tb.nn.__all__) - {"BayesianModule"} == LAYERS.keys()


@any_layer
def test_a_layer_is_torchs_own_converted(name: str) -> None:
    model = build(name, tau=0.3, rho=0.2, prior=tb.Prior(scale=0.5))
    torch.manual_seed(0)
    plain = getattr(nn, name)(*LAYERS[name][0])
    converted = tb.to_bayesian(plain, tau=0.3, rho=0.2, prior=tb.Prior(scale=0.5))
    assert type(model.module) is type(plain)
    assert isinstance(model, tb.BayesianModule)
    assert same_tensors(model.sample_weights(generator=0), converted.sample_weights(generator=0))
    assert torch.equal(model.kl(), converted.kl())


@any_layer
def test_a_layer_runs_with_noise(name: str) -> None:
    model, inputs = build(name, tau=0.3), inputs_for(name)
    outputs = model(inputs)
    assert outputs.shape == model.module(inputs).shape
    assert (outputs != model.module(inputs)).any()


@any_layer
@pytest.mark.parametrize("option", ["family", "where"])
def test_a_layer_takes_the_other_keywords(name: str, option: str) -> None:
    model = build(name, **{"family": {"family": "mean_field"}, "where": {"where": "weight"}}[option])
    assert isinstance(model.family, tb.posterior.MeanField) == (option == "family")
    assert ("bias" in model.random_names) == (option == "family" and name != "Embedding")


def test_torchs_keywords_reach_the_layer() -> None:
    layer = tb.nn.Conv2d(4, 4, kernel_size=3, groups=2, padding_mode="circular", padding=1, bias=False)
    assert layer.module.groups == 2
    assert layer.module.padding_mode == "circular"
    assert layer.module.bias is None


def test_a_network_of_layers_sums_their_divergences() -> None:
    net = nn.Sequential(tb.nn.Linear(4, 3), nn.ReLU(), tb.nn.Linear(3, 2, family="mean_field"))
    assert torch.equal(tb.kl(net), net[0].kl() + net[2].kl())


def test_a_layer_used_twice_counts_once() -> None:
    layer = tb.nn.Linear(3, 3)
    assert torch.equal(tb.kl(nn.Sequential(layer, nn.ReLU(), layer)), layer.kl())


def test_bayesian_modules_come_in_the_order_of_modules() -> None:
    shared = tb.nn.Linear(3, 3)
    model = nn.Sequential(shared, nn.Sequential(nn.ReLU(), shared), tb.nn.Linear(3, 2))
    assert bayesian_modules(model) == [one for one in model.modules() if isinstance(one, tb.BayesianModule)]
