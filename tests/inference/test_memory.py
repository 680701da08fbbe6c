"""A model knows what it was trained with: objectives tell it, copies keep it, torch does not see it."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tribayes.inference.memory import likelihood_of, remember
from tribayes.inference.objective import Objective


class TwoParts(nn.Module):
    """Two Bayesian modules in one network."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = tb.to_bayesian(nn.Linear(4, 8)), tb.to_bayesian(nn.Linear(8, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).relu())


X, Y = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])


@pytest.mark.parametrize("objective", [tb.ELBO(tb.Categorical(), data_size=6), tb.MaximumLikelihood(tb.Categorical())])
def test_an_objective_tells_the_model(objective: Objective) -> None:
    model = tb.to_bayesian(nn.Linear(4, 3))
    assert likelihood_of(model) is None
    objective(model, X, Y)
    assert likelihood_of(model) is objective.likelihood


def test_a_step_tells_the_model_before_it_is_taken() -> None:
    model, elbo = TwoParts(), tb.ELBO(tb.Categorical(), data_size=6)
    tb.TrainingStep(model, elbo, torch.optim.SGD(tb.parameter_groups(model, lr=0.1)))
    assert likelihood_of(model) is elbo.likelihood


def test_the_last_one_is_kept() -> None:
    model = tb.to_bayesian(nn.Linear(4, 3))
    first, second = tb.Categorical(), tb.Gaussian()
    remember(model, first)
    remember(model, second)
    assert likelihood_of(model) is second


def test_torch_does_not_see_it() -> None:
    model = TwoParts()
    before = list(model.state_dict()), [name for name, _ in model.named_parameters()], str(model)
    remember(model, tb.Gaussian(learned=True))
    assert (list(model.state_dict()), [name for name, _ in model.named_parameters()], str(model)) == before


def test_a_copy_and_a_pickle_have_their_own() -> None:
    model = TwoParts()
    remember(model, tb.Gaussian(noise=0.25))
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        found = likelihood_of(other)
        assert isinstance(found, tb.Gaussian)
        assert found is not likelihood_of(model)
        assert float(found.noise) == pytest.approx(0.25)


def test_a_compiled_model_and_its_original_know_the_same() -> None:
    model, elbo = TwoParts(), tb.ELBO(tb.Categorical(), data_size=6)
    remember(torch.compile(model), elbo.likelihood)
    assert likelihood_of(model) is elbo.likelihood
    assert likelihood_of(torch.compile(model)) is elbo.likelihood
    assert likelihood_of(nn.DataParallel(model)) is elbo.likelihood
