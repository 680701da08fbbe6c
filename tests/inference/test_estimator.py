"""Choosing an estimator, and the antithetic one: draws in pairs that mirror each other at the means."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tribayes as tb
from tests.networks import any_family, any_network, bayesian, inputs_of
from tribayes.inference.estimator import antithetic_draws
from tribayes.nn.holding import holding

LABELS = torch.tensor([0, 1, 1])


@any_family
@any_network
def test_antithetic_draws_mirror_each_other_at_the_means(name: str, family: str) -> None:
    model = bayesian(name, family=family)
    draws = [draw[0] for draw in antithetic_draws(model, 4)]
    assert len(draws) == 4
    for key, mean in model.means():
        for one, other in ((0, 1), (2, 3)):
            torch.testing.assert_close(draws[one][key] + draws[other][key], 2 * mean, rtol=1e-14, atol=1e-14)
        assert not torch.equal(draws[0][key], draws[2][key])


def test_what_is_linear_in_the_weights_has_no_variance_left() -> None:
    model, inputs = bayesian("Linear"), inputs_of("Linear")
    elbo = tb.ELBO(tb.Categorical(), data_size=9, samples=2, estimator="antithetic")
    outputs = elbo(model, inputs, LABELS).outputs
    assert (outputs[0] - outputs[1]).abs().min() > 1e-3
    torch.testing.assert_close(outputs.mean(0), model.apply_weights({}, inputs), rtol=1e-13, atol=1e-14)


@any_family
def test_its_gradient_is_the_mean_of_two_draws_with_opposite_normals(family: str) -> None:
    model, inputs = bayesian("MLP", family=family), inputs_of("MLP")
    elbo = tb.ELBO(tb.Categorical(), data_size=9, kl_weight=0, samples=2, estimator="antithetic")
    torch.manual_seed(3)
    ours = torch.autograd.grad(elbo(model, inputs, LABELS).loss, list(model.parameters()))
    torch.manual_seed(3)
    drawn = model.sample_weights()
    noise = {name: drawn[name] - mean for name, mean in model.means()}  # linear in the normals
    losses = []
    for sign in (1, -1):
        weights = {name: mean + sign * noise[name] for name, mean in model.means()}
        losses.append(F.cross_entropy(model.apply_weights(weights, inputs), LABELS))
    theirs = torch.autograd.grad(sum(losses) / 2, list(model.parameters()))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-14)


def test_a_model_of_several_modules_mirrors_them_all() -> None:
    net = nn.Sequential(tb.nn.Linear(4, 3), nn.Identity(), tb.nn.Linear(3, 2, bias=False)).double()
    one, other = antithetic_draws(net, 2)
    for module, first, second in zip((net[0], net[2]), one, other, strict=True):
        for name, mean in module.means():
            torch.testing.assert_close(first[name] + second[name], 2 * mean, rtol=1e-14, atol=1e-14)


def test_the_model_is_left_without_held_weights() -> None:
    model = bayesian("MLP")
    tb.ELBO(tb.Categorical(), data_size=9, samples=2, estimator="antithetic")(model, inputs_of("MLP"), LABELS)
    assert model.held is None


REFUSED = [
    (
        {"estimator": "flipout"},
        "`estimator` (='flipout') must be one of ['plain', 'local', 'antithetic']; correct the word.",
    ),
    (
        {"estimator": "antithetic"},
        '`samples` (=1) must be even for estimator="antithetic"; pass samples=2: a draw and its mirror image.',
    ),
    (
        {"estimator": "antithetic", "samples": 3},
        '`samples` (=3) must be even for estimator="antithetic"; pass samples=2: a draw and its mirror image.',
    ),
]


@pytest.mark.parametrize(("options", "text"), REFUSED)
def test_bad_choices_are_refused_in_words(options: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(text) + "$"):
        tb.ELBO(tb.Categorical(), data_size=9, **options)


@pytest.mark.parametrize("estimator", ["local", "antithetic"])
def test_held_weights_are_not_overruled(estimator: str) -> None:
    model, inputs = bayesian("Linear"), inputs_of("Linear")
    elbo = tb.ELBO(tb.Categorical(), data_size=9, samples=2, estimator=estimator)
    text = (
        f"`estimator` (='{estimator}') must be \"plain\" while the model holds given weights; "
        'use estimator="plain", or call it outside of `holding`.'
    )
    with holding(model, [model.sample_weights()]), pytest.raises(ValueError, match="^" + re.escape(text) + "$"):
        elbo(model, inputs, LABELS)
