"""What holds for any network and any family: wrapping adds noise to the chosen weights, and nothing else."""

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence

import tribayes as tb
from tests.networks import any_family, any_network, bayesian, inputs_of, same_tensors
from tests.oracle import paper
from tribayes.posterior import Stream


@any_network
@any_family
def test_without_a_draw_it_is_the_wrapped_network(name: str, family: str) -> None:
    model, inputs = bayesian(name, family=family), inputs_of(name)
    expected = model.module(inputs)
    assert torch.equal(model.apply_weights({}, inputs), expected)
    assert torch.equal(model.apply_weights(dict(model.means()), inputs), expected)


@any_network
@any_family
def test_with_zero_scale_a_draw_is_the_means(name: str, family: str) -> None:
    model, inputs = bayesian(name, family=family), inputs_of(name)
    with torch.no_grad():
        for raw in model.family.scale_parameters():
            raw.fill_(-1e3)  # softplus of it is 0 exactly
    assert same_tensors(model.sample_weights(), dict(model.means()))
    torch.testing.assert_close(model(inputs), model.module(inputs), rtol=0, atol=1e-14)


@any_network
@any_family
def test_a_draw_is_the_plain_network_with_those_weights(name: str, family: str) -> None:
    model, inputs = bayesian(name, family=family), inputs_of(name)
    plain = tb.to_deterministic(model)
    weights = model.sample_weights(generator=1)
    with torch.no_grad():
        for key, value in weights.items():
            plain.get_parameter(key).copy_(value)
        torch.testing.assert_close(model.apply_weights(weights, inputs), plain(inputs), rtol=0, atol=1e-14)


@any_network
@any_family
def test_a_call_leaves_every_parameter_in_place(name: str, family: str) -> None:
    model, inputs = bayesian(name, family=family), inputs_of(name)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    values = {key: value.detach().clone() for key, value in model.state_dict().items()}
    model(inputs)
    after = dict(model.named_parameters(remove_duplicate=False))
    assert parameters.keys() == after.keys()
    assert all(after[key] is parameter for key, parameter in parameters.items())
    assert same_tensors(values, model.state_dict())


@any_network
@any_family
def test_a_draw_moves_every_random_weight(name: str, family: str) -> None:
    model = bayesian(name, family=family)
    weights, means = model.sample_weights(), dict(model.means())
    assert weights.keys() == means.keys() == set(model.random_names)
    assert all((weights[key] != mean).all() for key, mean in means.items())


@any_network
@any_family
def test_a_seed_decides_the_draw(name: str, family: str) -> None:
    model = bayesian(name, family=family)
    weights = model.sample_weights(generator=1)
    other = model.sample_weights(generator=2)
    assert same_tensors(weights, model.sample_weights(generator=1))
    source = Stream((1,)).generator(torch.device("cpu"))
    assert same_tensors(weights, model.sample_weights(generator=source))
    following = model.sample_weights(generator=source)  # a generator goes on
    assert all((following[key] != value).all() for key, value in weights.items())
    assert all((other[key] != value).all() for key, value in weights.items())


@any_network
@any_family
def test_a_stack_of_draws_has_one_more_axis(name: str, family: str) -> None:
    model = bayesian(name, family=family)
    stack = model.sample_weights(3, generator=0)
    assert {key: value.shape for key, value in stack.items()} == {key: (3, *mean.shape) for key, mean in model.means()}
    assert all((value[0] != value[1]).all() and (value[1] != value[2]).all() for value in stack.values())


@any_network
@any_family
def test_gradients_reach_everything_learned(name: str, family: str) -> None:
    model, inputs = bayesian(name, family=family), inputs_of(name)
    torch.manual_seed(0)
    model(inputs).square().sum().backward()
    learned = {key: p for key, p in model.named_parameters() if p.requires_grad}
    assert all(p.grad is not None and p.grad.isfinite().all() for p in learned.values())
    assert [key for key, p in learned.items() if not p.grad.any()] == []
    if family != "mean_field":  # one entry per tensor: each must be reached
        assert model.family.delta.grad.all()
    if family == "tridiagonal":
        assert model.family.gamma.grad.all()


@any_network
def test_the_divergence_is_the_papers_summed_over_tensors(name: str) -> None:
    model = bayesian(name, rho=0.2, prior=tb.Prior(loc=0.1, scale=0.7))
    delta, gamma = model.family.delta.tolist(), model.family.gamma.tolist()
    vectors = [mean.detach().flatten().numpy() for _, mean in model.means()]
    terms = [paper.kl(m, d, g, 0.1, 0.7) for m, d, g in zip(vectors, delta, gamma, strict=True)]
    np.testing.assert_allclose(model.kl().item(), sum(terms), rtol=1e-11)


@any_network
@pytest.mark.parametrize("family", ["diagonal", "mean_field"])
def test_the_divergence_of_independent_weights_is_torchs_summed_over_weights(name: str, family: str) -> None:
    model = bayesian(name, family=family, prior=tb.Prior(loc=0.1, scale=0.7))
    prior = Normal(*torch.tensor([0.1, 0.7], dtype=torch.float64))
    laws = [Normal(law.mean, law.stddev) for law in model.laws().values()]
    expected = sum(kl_divergence(law, prior).sum() for law in laws)
    torch.testing.assert_close(model.kl(), expected, rtol=1e-12, atol=0)


@any_network
@pytest.mark.parametrize("training", [True, False])
def test_every_call_draws_anew_in_training_and_evaluation(name: str, training: bool) -> None:
    model, inputs = bayesian(name).train(training), inputs_of(name)
    torch.manual_seed(0)
    assert (model(inputs) != model(inputs)).all()
