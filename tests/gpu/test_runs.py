"""A user's run on the GPU: interrupted and resumed, it ends with the same bits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import tribayes as tb
from tests.runs.test_run import stopped_after
from tribayes.runs import Run, Trainer


def train(folder: Path) -> Run:
    """A regression with dropout and a learned noise."""
    torch.manual_seed(0)
    x = torch.linspace(-1, 1, 90).unsqueeze(1).cuda()
    model = tb.to_bayesian(nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 1))).cuda()
    elbo = tb.ELBO(tb.Gaussian(noise=0.3, learned=True), data_size=90, kl_weight=0.1).cuda()
    groups = tb.parameter_groups(model, lr=0.01, correlation_lr_multiplier=1.0, likelihood=elbo.likelihood)
    run = Run.at(folder, seed=3, device="cuda")
    examples = (x, torch.sin(3 * x))
    settings = {"iterations": 60, "batch_size": 8, "checkpoint_seconds": 0, "progress": False}
    run.train(model, elbo, torch.optim.Adam(groups), train=examples, test=examples, **settings)
    return run


def test_a_resumed_run_has_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train(tmp_path / "whole")
    for steps in (20, 10):
        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "advance", stopped_after(steps))
            with pytest.raises(RuntimeError, match="enough"):
                train(tmp_path / "parts")
    assert train(tmp_path / "parts").final.read_bytes() == whole.final.read_bytes()
