"""`CapturedStep` where there is no GPU: the plain step, and what it refuses. Its captures are in tests/gpu."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import tribayes as tb


def _parts() -> tuple[tb.BayesianModule, tb.ELBO, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = tb.to_bayesian(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)))
    elbo = tb.ELBO(tb.Categorical(), data_size=100, kl_weight=0.1)
    return model, elbo, torch.optim.SGD(tb.parameter_groups(model, lr=0.05), momentum=0.9)


def test_on_a_cpu_it_is_the_plain_step() -> None:
    ours, plain = _parts(), copy.deepcopy(_parts())
    step = tb.CapturedStep(*ours)
    optimizer = torch.optim.SGD(tb.parameter_groups(plain[0], lr=0.05), momentum=0.9)
    x, y = torch.randn(6, 10, 4), torch.randint(0, 3, (6, 10))
    torch.manual_seed(1)
    losses = [float(step(inputs, labels).loss.detach()) for inputs, labels in zip(x, y, strict=True)]
    torch.manual_seed(1)
    for inputs, labels, loss in zip(x, y, losses, strict=True):
        assert float(tb.training_step(plain[0], plain[1], inputs, labels, optimizer).loss.detach()) == loss
    assert not step.captured
    for a, b in zip(ours[0].parameters(), plain[0].parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_schedule_of_the_divergence_is_refused() -> None:
    model, _, optimizer = _parts()
    elbo = tb.ELBO(tb.Categorical(), data_size=100, kl_weight=lambda step: step / 10)
    with pytest.raises(ValueError, match="have a number as kl_weight"):
        tb.CapturedStep(model, elbo, optimizer)
