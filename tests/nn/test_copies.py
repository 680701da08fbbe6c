"""Copies, pickles, and moves to another device or dtype."""

import copy
import pickle

import pytest
import torch
from torch import nn

import tribayes as tb
from tests.networks import NETWORKS, any_family, any_network, bayesian, inputs_of, same_tensors


@any_network
@any_family
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_draws_the_same_and_is_independent(name: str, family: str, duplicate: object) -> None:
    model, inputs = bayesian(name, family=family, rho=0.1 if family == "tridiagonal" else 0.0), inputs_of(name)
    model(inputs).sum().backward()  # a model in use, with gradients on it
    twin = duplicate(model)
    weights, divergence = model.sample_weights(generator=1), model.kl()
    assert same_tensors(twin.sample_weights(generator=1), weights)
    assert torch.equal(twin.kl(), divergence)
    with torch.no_grad():
        for tensor in [*twin.parameters(), *twin.priors.buffers()]:
            tensor.add_(1.0)
    assert same_tensors(model.sample_weights(generator=1), weights)
    assert torch.equal(model.kl(), divergence)
    assert (twin.apply_weights({}, inputs) != model.apply_weights({}, inputs)).all()


@any_network
@any_family
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_model_moves_to_a_dtype(name: str, family: str, dtype: torch.dtype) -> None:
    model = bayesian(name, family=family).to("cpu", dtype)
    assert {p.dtype for p in model.parameters()} == {dtype}
    assert {value.dtype for value in model.sample_weights().values()} == {dtype}
    assert model.kl().dtype == dtype
    assert model(NETWORKS[name].inputs(dtype)).dtype == dtype


@any_network
@any_family
def test_half_precision_weights_come_from_a_law_in_single_precision(name: str, family: str) -> None:
    model = bayesian(name, family=family).to(torch.bfloat16)
    single = bayesian(name, family=family).float()
    single.load_state_dict(model.state_dict())
    assert torch.equal(model.kl(), single.kl())
    rounded = {key: value.bfloat16() for key, value in single.sample_weights(generator=0).items()}
    assert same_tensors(model.sample_weights(generator=0), rounded)


@any_network
@any_family
def test_everything_moves_to_a_device(name: str, family: str) -> None:
    # "meta" holds no numbers, but refuses to mix with tensors left on another device.
    model = bayesian(name, family=family).to("meta")
    assert {tensor.device.type for tensor in [*model.parameters(), *model.buffers()]} == {"meta"}
    assert model(inputs_of(name).to("meta")).device.type == "meta"
    assert model.kl().device.type == "meta"
    assert {value.device.type for value in model.sample_weights(2).values()} == {"meta"}


def test_a_network_built_in_double_precision_stays_so() -> None:
    model = tb.nn.Linear(3, 2, dtype=torch.float64, prior=tb.Prior())
    assert {p.dtype for p in model.parameters()} == {torch.float64}
    assert {prior.scale.dtype for prior in model.priors} == {torch.float64}


def test_training_mode_reaches_the_wrapped_network() -> None:
    model = tb.to_bayesian(nn.Sequential(nn.Linear(2, 2), nn.Dropout()))
    assert model.eval().module[1].training is False
    assert model.train().module[1].training is True
