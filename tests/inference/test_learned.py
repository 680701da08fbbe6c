"""An optimizer that lacks something is refused: what it lacks would not learn, and nobody would know."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from torch import nn

import tribayes as tb
from tests.networks import any_family, bayesian, inputs_of

REMEDY = "or freeze what shall stay as it is: parameter.requires_grad_(False)."
TARGETS = torch.zeros(3, 2, dtype=torch.float64)


def step_by(choose: Callable[[tb.BayesianModule, tb.Gaussian], list[nn.Parameter]], **options: object) -> None:
    """A step by an optimizer of some of the parameters."""
    model, noise = bayesian("MLP", **options), tb.Gaussian(learned=True).double()
    optimizer = torch.optim.SGD(choose(model, noise), lr=0.1)
    tb.TrainingStep(model, tb.ELBO(noise, data_size=3), optimizer)(inputs_of("MLP"), TARGETS)


LACKING: dict[str, tuple[Callable[[tb.BayesianModule, tb.Gaussian], list[nn.Parameter]], str]] = {
    "the plain network's": (
        lambda model, noise: [*model.module.parameters(), *noise.parameters()],
        "scales δ (family.delta); correlations γ (family.gamma); make it of tb.parameter_groups(model, lr=...)",
    ),
    "no noise": (
        lambda model, _: list(model.parameters()),
        "parameters of the likelihood (raw_noise); "
        "make it of tb.parameter_groups(model, lr=..., likelihood=elbo.likelihood)",
    ),
    "no means": (
        lambda model, noise: [*model.family.parameters(), *noise.parameters()],
        "means (0.weight, 0.bias, 2.weight and 1 more); make it of tb.parameter_groups(model, lr=...)",
    ),
}


@pytest.mark.parametrize("case", LACKING)
def test_what_an_optimizer_lacks_is_named(case: str) -> None:
    choose, text = LACKING[case]
    text = f"`optimizer` (='SGD') must hold everything that learns, but lacks {text}, {REMEDY}"
    with pytest.raises(ValueError, match="^" + re.escape(text) + "$"):
        step_by(choose)


def test_fit_refuses_it_too() -> None:
    model = bayesian("MLP")
    optimizer = torch.optim.SGD(model.module.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="must hold everything that learns"):
        tb.fit(model, tb.ELBO(tb.Gaussian(), data_size=3), [(inputs_of("MLP"), TARGETS)], optimizer, progress=False)


def test_ordinary_parameters_are_missed_as_well() -> None:
    model = nn.Sequential(nn.Linear(4, 4), tb.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1)
    with pytest.raises(ValueError, match=r"lacks ordinary parameters \(0.weight, 0.bias\); "):
        tb.TrainingStep(model, tb.ELBO(tb.Gaussian(), data_size=3), optimizer)


def test_a_state_that_was_assigned_leaves_an_old_optimizer_behind() -> None:
    """`load_state_dict(assign=True)` makes new parameters, which the optimizer does not know."""
    model = bayesian("MLP")
    optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.1))
    model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()}, assign=True)
    with pytest.raises(ValueError, match="lacks means"):
        tb.TrainingStep(model, tb.ELBO(tb.Gaussian(), data_size=3), optimizer)


@any_family
@pytest.mark.parametrize("frozen", ["means", "the rest"])
def test_what_is_frozen_stays_as_it_is_and_the_rest_learns(family: str, frozen: str) -> None:
    model = bayesian("MLP", family=family)
    parts = {"means": model.module, "the rest": model.family}
    still = parts.pop(frozen).requires_grad_(False)
    (moving,) = parts.values()
    before = {part: [p.detach().clone() for p in part.parameters()] for part in (still, moving)}
    optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.1))
    step = tb.TrainingStep(model, tb.ELBO(tb.Gaussian(), data_size=3), optimizer)
    for _ in range(2):
        step(inputs_of("MLP"), TARGETS)
    same = {part: list(map(torch.equal, part.parameters(), old)) for part, old in before.items()}
    assert all(same[still])
    assert not any(same[moving])


def test_a_frozen_noise_is_no_complaint() -> None:
    model, noise = bayesian("MLP"), tb.Gaussian(learned=True).double().requires_grad_(False)
    optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.1))
    tb.TrainingStep(model, tb.ELBO(noise, data_size=3), optimizer)(inputs_of("MLP"), TARGETS)


def test_an_optimizer_that_computes_the_loss_itself_is_refused() -> None:
    model = tb.to_bayesian(nn.Linear(4, 3))
    text = (
        "`optimizer` (='LBFGS') must make a step without a closure; "
        "use SGD, Adam or another that takes a step by one gradient."
    )
    with pytest.raises(ValueError, match="^" + re.escape(text)):
        tb.TrainingStep(model, tb.ELBO(tb.Categorical(), data_size=8), torch.optim.LBFGS(model.parameters()))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_where_nothing_can_learn_nothing_is_trained(mode: type, accumulate: int) -> None:
    model, batches = tb.to_bayesian(nn.Linear(4, 3)), [(torch.ones(8, 4), torch.zeros(8, dtype=torch.int64))] * 2
    optimizer = torch.optim.Adam(tb.parameter_groups(model, lr=0.01))
    text = "`torch.is_grad_enabled()` (=False) must be True where something learns; take the training out of torch.no_"
    with mode(), pytest.raises(ValueError, match="^" + re.escape(text)):
        tb.fit(
            model,
            tb.ELBO(tb.Categorical(), data_size=8),
            batches,
            optimizer,
            accumulate=accumulate,
            progress=False,
        )
