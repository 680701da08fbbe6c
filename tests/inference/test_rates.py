"""A schedule that sets one rate for all groups is noticed, wherever it comes in, and said once."""

from __future__ import annotations

import re
import warnings

import pytest
import torch
from torch import nn

import tribayes as tb
from tests.networks import bayesian, inputs_of

LABELS = torch.tensor([0, 1, 1])
SAID = (
    r"^all parameter groups now learn with 0\.\d+, but were given means 0\.2, scales 0\.01, correlations 0\.01: a "
    r"schedule that sets one rate for all \(OneCycleLR\(max_lr=0\.1\), or a loop over optimizer\.param_groups\) erases"
)


def trained(make: object = None, steps: int = 4, own: object = None, **options: object) -> None:
    model = bayesian("MLP")
    optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.2, **options))
    scheduler = None if make is None else make(optimizer)
    elbo = tb.ELBO(tb.Categorical(), data_size=30)
    if own is None:
        batches = [(inputs_of("MLP"), LABELS)] * steps
        tb.fit(model, elbo, batches, optimizer, scheduler=scheduler, progress=False)
        return
    step = tb.TrainingStep(model, elbo, optimizer)
    for number in range(steps):
        own(optimizer, number)
        step(inputs_of("MLP"), LABELS)


def test_one_cycle_with_one_rate_is_said_once() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained(lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=6))
    assert len(caught) == 1
    with pytest.warns(UserWarning, match=SAID):
        warnings.warn(caught[0].message, UserWarning, stacklevel=1)


def test_a_loop_over_the_groups_is_noticed_when_it_begins() -> None:
    def one_rate(optimizer: torch.optim.Optimizer, number: int) -> None:
        if number == 2:
            for group in optimizer.param_groups:
                group["lr"] = 0.05

    with pytest.warns(UserWarning, match=SAID):
        trained(own=one_rate)


FINE = {
    "one cycle, a rate for each": lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=[group["lr"] for group in optimizer.param_groups], total_steps=6, cycle_momentum=False
    ),
    "a momentum for the means alone": lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        max_lr=[group["lr"] for group in optimizer.param_groups],
        total_steps=6,
        base_momentum=[0.85, 0.0, 0.0],
        max_momentum=[0.95, 0.0, 0.0],
    ),
    "from zero": lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 4),
    "to a small last one": lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3, eta_min=1e-5),
}


@pytest.mark.parametrize("case", FINE)
def test_schedules_that_keep_the_relation_are_not_spoken_of(case: str) -> None:
    trained(FINE[case])  # a warning would be an error


def test_rates_that_were_given_equal_may_stay_so() -> None:
    one_cycle = torch.optim.lr_scheduler.OneCycleLR
    trained(lambda made: one_cycle(made, max_lr=0.2, total_steps=6, cycle_momentum=False), scale_lr=0.2)


def test_a_schedule_by_the_validation_goes_by_a_callback() -> None:
    model, batch = tb.to_bayesian(nn.Linear(4, 3), rho=0.0), (torch.ones(8, 4), torch.zeros(8, dtype=torch.int64))
    optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.1, correlation_lr_multiplier=50))
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=100.0, threshold_mode="abs")
    objective = tb.ELBO(tb.Categorical(), data_size=8)
    words = "let a callback advance it: callbacks=lambda state: scheduler.step(state.validation[-1].nll)."
    with pytest.raises(ValueError, match=re.escape(words)):
        tb.fit(model, objective, [batch], optimizer, scheduler=plateau, progress=False)
    options = {"validation": batch, "callbacks": lambda state: plateau.step(state.validation[-1].nll)}
    tb.fit(model, objective, [batch], optimizer, epochs=2, progress=False, **options)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.01, 0.01, 0.5])


CYCLES = {
    "OneCycleLR": lambda optimizer, rates: torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rates, total_steps=6),
    "CyclicLR": lambda optimizer, rates: torch.optim.lr_scheduler.CyclicLR(optimizer, [r / 9 for r in rates], rates),
}


@pytest.mark.parametrize("name", CYCLES)
def test_a_momentum_for_scales_and_correlations_is_said_once(name: str) -> None:
    """It would make their steps, whose size is set, up to twenty times as long."""

    def cycle(optimizer: torch.optim.Optimizer) -> object:
        return CYCLES[name](optimizer, [group["lr"] for group in optimizer.param_groups])

    with pytest.warns(
        UserWarning, match=r"δ and correlations γ have got a momentum.*pass cycle_momentum=False"
    ) as said:
        trained(cycle)
    assert len(said) == 1
    trained(cycle, correlation_lr_multiplier=50)  # the paper's way, whose steps are plain SGD's
