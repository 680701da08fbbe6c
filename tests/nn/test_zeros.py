"""Means of exactly zero, by averaging, pruning or loading: noticed where it costs nothing, with what follows."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor

import tribayes as tb
from tests.networks import bayesian, inputs_of

INFINITE = (
    r"^means are exactly zero \(1 of 24 in '0\.weight', 6 of 6 in '0\.bias'\): the noise of a weight is τ\|m\|, so "
    r"they have none, and their divergence from a tb\.Prior is infinite; tb\.stabilise_\(model\), which every training "
    r"step calls, moves them to ±1e-6\. Pruned weights stay zero under tb\.RelativePrior\(\)\.$"
)
SILENT = r"so they have none, which is right for pruned weights; others get it back when training moves them\.$"


def pruned(**options: object) -> dict[str, Tensor]:
    state = {name: value.clone() for name, value in bayesian("MLP", **options).state_dict().items()}
    state["module.0.weight"][2, 1] = 0.0
    state["module.0.bias"].zero_()
    return state


@pytest.mark.parametrize("family", ["tridiagonal", "diagonal"])
@pytest.mark.parametrize(("prior", "text"), [(tb.Prior(), INFINITE), (tb.RelativePrior(), SILENT)])
def test_a_state_with_zeros_is_spoken_of_when_it_is_loaded(family: str, prior: object, text: str) -> None:
    options = {"family": family, "prior": prior}
    model = bayesian("MLP", **options)
    with pytest.warns(UserWarning, match=text) as caught:
        model.load_state_dict(pruned(**options))
    assert len(caught) == 1
    assert model.kl().isfinite() == isinstance(prior, tb.RelativePrior)
    tb.stabilise_(model)
    assert model.kl().isfinite()


def test_weights_with_noise_of_their_own_may_be_zero() -> None:
    model = bayesian("MLP", family="mean_field")
    model.load_state_dict(pruned(family="mean_field"))  # a warning would be an error
    assert model.kl().isfinite()


def test_a_training_begins_by_saying_it() -> None:
    model = bayesian("MLP")
    with torch.no_grad():
        model.module[0].bias.zero_()  # as an average of 1e-6 and -1e-6
    with pytest.warns(UserWarning, match=r"6 of 6 in '0.bias'"):  # for a loop of one's own
        optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.01))
    with pytest.warns(UserWarning, match=r"6 of 6 in '0.bias'"):
        step = tb.TrainingStep(model, tb.ELBO(tb.Categorical(), data_size=3), optimizer)
    assert step(inputs_of("MLP"), torch.tensor([0, 1, 1])).kl.isfinite()  # the guards have moved them


def test_a_fixed_prior_for_a_pruned_network_is_spoken_of() -> None:
    model = bayesian("MLP", prior=tb.RelativePrior())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.load_state_dict(pruned(prior=tb.RelativePrior()))
    with pytest.warns(UserWarning, match=INFINITE):
        model.set_prior(tb.Prior())


def test_a_loss_that_is_infinite_by_a_zero_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where guards of one's own let it through."""
    monkeypatch.setattr(tb.BayesianModule, "stabilise_", lambda *_: None)
    model = bayesian("MLP")
    optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.01))
    step = tb.TrainingStep(model, tb.ELBO(tb.Categorical(), data_size=3), optimizer)
    with torch.no_grad():
        model.module[0].bias[0] = 0.0
    text = r"its kl is inf\. 1 of 6 means of '0.bias' are exactly zero\. Nothing of this step was applied\.$"
    with pytest.raises(tb.NonFiniteLoss, match=text):
        step(inputs_of("MLP"), torch.tensor([0, 1, 1]))
