"""Accelerate: what it prepares trains as before, by its backward pass or by ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tribayes as tb
from tests.libraries import library
from tests.networks import same_tensors

accelerate = library("accelerate")

N = 12
X = torch.randn(N, 4, generator=torch.Generator().manual_seed(1))
Y = (X[:, 0] > 0).long()


@pytest.fixture(autouse=True)
def _no_accelerator_is_left() -> Iterator[None]:
    """It keeps its settings for the whole process, and which loader is under way: another test's may not have ended."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    accelerate.state.GradientState._reset_state()
    accelerate.state.AcceleratorState._reset_state(True)


def parts(make: type[torch.optim.Optimizer] = torch.optim.Adam) -> tuple[Any, ...]:
    torch.manual_seed(0)
    model = tb.to_bayesian(nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)), tau=0.3)
    return model, make(tb.parameter_groups(model, lr=0.05)), DataLoader(TensorDataset(X, Y), batch_size=6)


def objective() -> tb.ELBO:
    return tb.ELBO(tb.Categorical(), data_size=N, kl_weight=1.0)


def by_hand(make: type[torch.optim.Optimizer], **options: Any) -> tb.BayesianModule:
    model, optimizer, loader = parts(make)
    batches = list(loader)
    torch.manual_seed(5)
    tb.fit(model, objective(), batches, optimizer, epochs=3, progress=False, **options)
    return model


@pytest.mark.parametrize("make", [torch.optim.Adam, torch.optim.SGD])
def test_its_backward_pass_learns_as_fit_does(make: type[torch.optim.Optimizer]) -> None:
    accelerator, elbo = accelerate.Accelerator(cpu=True), objective()
    model, optimizer, loader = accelerator.prepare(*parts(make))
    batches = list(loader)
    torch.manual_seed(5)
    for inputs, targets in batches * 3:
        tb.stabilise_(model)
        optimizer.zero_grad()
        accelerator.backward(elbo(model, inputs, targets).loss)
        optimizer.step()
    assert same_tensors(accelerator.unwrap_model(model).state_dict(), by_hand(make).state_dict())


@pytest.mark.parametrize("make", [torch.optim.Adam, torch.optim.SGD])
def test_our_step_takes_what_it_prepared(make: type[torch.optim.Optimizer]) -> None:
    accelerator = accelerate.Accelerator(cpu=True)
    model, optimizer, loader = accelerator.prepare(*parts(make))
    step, batches = tb.TrainingStep(model, objective(), optimizer), list(loader)
    torch.manual_seed(5)
    for inputs, targets in batches * 3:
        step(inputs, targets)
    assert same_tensors(accelerator.unwrap_model(model).state_dict(), by_hand(make).state_dict())


def test_accumulation_counts_the_divergence_once() -> None:
    accelerator, elbo = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2), objective()
    model, optimizer, loader = accelerator.prepare(*parts(torch.optim.SGD))
    batches = list(loader)
    torch.manual_seed(5)
    for inputs, targets in batches * 3:
        with accelerator.accumulate(model):
            tb.stabilise_(model)
            accelerator.backward(elbo(model, inputs, targets).loss)
            optimizer.step()
            optimizer.zero_grad()
    torch.testing.assert_close(model.state_dict(), by_hand(torch.optim.SGD, accumulate=2).state_dict())


def test_half_precision_needs_autocast_around_the_objective() -> None:
    """`prepare` puts it around `model.forward`, and the ELBO runs the network under a draw without that."""
    accelerator, elbo = accelerate.Accelerator(cpu=True, mixed_precision="bf16"), objective()
    model, _, loader = accelerator.prepare(*parts())
    seen: list[torch.dtype] = []
    model.module[0].register_forward_hook(lambda *call: seen.append(call[2].dtype))
    inputs, targets = next(iter(loader))
    elbo(model, inputs, targets)
    with accelerator.autocast():
        elbo(model, inputs, targets)
    assert seen == [torch.float32, torch.bfloat16]
    plain = parts()[0]
    halves = [
        tb.predict(model, X, 20, progress=False),
        tb.predict(plain, X, 20, precision=torch.bfloat16, progress=False),
    ]
    torch.testing.assert_close(halves[0].samples, halves[1].samples, rtol=0, atol=0.01)  # outputs rounded, or not
    whole = accelerator.unwrap_model(model, keep_fp32_wrapper=False)
    exact = tb.predict(plain, X, 20, progress=False).samples
    assert torch.equal(tb.predict(whole, X, 20, progress=False).samples, exact)
    assert not torch.equal(halves[0].samples, exact)
