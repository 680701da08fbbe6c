"""Other priors for a model that is there: its divergence is that of a model made with them, and nothing else moves."""

from __future__ import annotations

import copy
import re

import pytest
import torch
from torch import nn

import tribayes as tb
from tests.networks import any_family, bayesian, inputs_of, same_tensors

PRIORS = {
    "one": tb.Prior(loc=0.2, scale=0.5),
    "relative": tb.RelativePrior(),
    "by pattern": {"*bias": tb.RelativePrior(), "*": tb.Prior(scale=0.3)},
    "pretrained": tb.Prior(loc="pretrained", scale=0.1),
}


@any_family
@pytest.mark.parametrize("case", PRIORS)
def test_it_is_as_if_the_model_had_been_made_with_it(family: str, case: str) -> None:
    model = bayesian("MLP", family=family)
    state = {name: value.clone() for name, value in model.state_dict().items() if "priors" not in name}
    model.set_prior(PRIORS[case])
    made = bayesian("MLP", family=family, prior=PRIORS[case])
    assert model.kl().item() == made.kl().item()
    assert model.state_dict().keys() == made.state_dict().keys()
    assert same_tensors({name: value for name, value in model.state_dict().items() if "priors" not in name}, state)


def test_what_no_pattern_names_keeps_its_own() -> None:
    model = bayesian("MLP", prior={"0.*": tb.RelativePrior(), "*": tb.Prior(scale=2.0)})
    model.set_prior({"0.bias": tb.Prior(scale=0.1)})
    expected = {"0.bias": tb.Prior(scale=0.1), "0.*": tb.RelativePrior(), "*": tb.Prior(scale=2.0)}
    assert model.kl().item() == bayesian("MLP", prior=expected).kl().item()


def test_pretrained_is_where_the_means_are_now() -> None:
    model = bayesian("MLP")
    other = bayesian("MLP")
    with torch.no_grad():
        for _, mean in other.means():
            mean.add_(1.0)
    model.load_state_dict(other.state_dict())  # and only then
    model.set_prior(tb.Prior(loc="pretrained", scale=0.1))
    assert all(torch.equal(p.loc, mean.flatten()) for p, (_, mean) in zip(model.priors, model.means(), strict=True))


def test_training_goes_on_under_the_new_prior() -> None:
    model = bayesian("MLP")
    elbo = tb.ELBO(tb.Categorical(), data_size=12)
    step = tb.TrainingStep(model, elbo, torch.optim.SGD(tb.parameter_groups(model, lr=0.01)))
    labels = torch.tensor([0, 1, 1])
    step(inputs_of("MLP"), labels)
    model.set_prior(tb.Prior(scale=0.05))
    expected = copy.deepcopy(model).kl().item()
    assert step(inputs_of("MLP"), labels).kl.item() == pytest.approx(expected, rel=1e-12)


def test_bad_priors_are_refused_and_change_nothing() -> None:
    model = bayesian("MLP")
    before = model.kl().item()
    text = "`prior` (=1.0) must be a tribayes.Prior or RelativePrior; pass e.g. tb.Prior(loc=0.0, scale=1.0)."
    with pytest.raises(TypeError, match="^" + re.escape(text) + "$"):
        model.set_prior(1.0)
    with pytest.raises(ValueError, match=r"^`prior` \(='9\.\*'\) must match a random tensor; choose among 0\.weight"):
        model.set_prior({"9.*": tb.Prior()})
    with pytest.raises(ValueError, match=r"must be a scalar or have the shape \(6,\) of '0.bias'"):
        model.set_prior(tb.Prior(scale=torch.ones(6, 4)))
    assert model.kl().item() == before


def test_a_tied_weight_answers_to_each_of_its_names() -> None:
    model = bayesian("tied weights")
    model.set_prior({"decoder.weight": tb.Prior(scale=0.2)})
    assert model.kl().item() == bayesian("tied weights", prior=tb.Prior(scale=0.2)).kl().item()


def test_a_model_on_another_dtype_gets_it_there() -> None:
    model = tb.to_bayesian(nn.Linear(3, 2)).double()
    model.set_prior(tb.Prior(scale=0.1))
    assert model.kl().dtype == torch.float64
