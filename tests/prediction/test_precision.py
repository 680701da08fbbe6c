"""Predicting in half precision: near the full one, in float32, and for layers alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tribayes as tb


def network() -> tb.BayesianModule:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5))
    return tb.to_bayesian(net, tau=0.3)


@pytest.mark.parametrize("batch_size", [None, 6])
def test_half_precision_is_near_the_full_one(batch_size: int | None) -> None:
    model, inputs = network(), torch.randn(20, 1, 8, 8)
    full = tb.predict(model, inputs, 8, progress=False)
    half = tb.predict(model, inputs, 8, progress=False, precision=torch.bfloat16, batch_size=batch_size)
    assert half.samples.dtype == torch.float32
    assert not torch.equal(half.samples, full.samples)  # something was computed in it
    # logits of size 1 keep 8 bits: their error is some 1/256, and a probability's at most as large
    assert (half.samples - full.samples).abs().max() < 0.03
    torch.testing.assert_close(half.samples.sum(-1), torch.ones(8, 20), rtol=0, atol=1e-6)


def test_autocast_is_over_afterwards() -> None:
    tb.predict(network(), torch.randn(2, 1, 8, 8), 2, progress=False, precision=torch.bfloat16)
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("precision", [torch.float32, torch.int8, "bfloat16"])
def test_another_precision_is_refused(precision: object) -> None:
    with pytest.raises(ValueError, match=r"`precision` .*must be torch.bfloat16 or torch.float16; leave it out"):
        tb.predict(network(), torch.randn(2, 1, 8, 8), 2, progress=False, precision=precision)  # type: ignore[arg-type]  # wrong on purpose


def test_moments_are_not_for_half_precision() -> None:
    with pytest.raises(ValueError, match=r"`precision` .*must be left out with samples=Moments\(\)"):
        tb.predict(network(), torch.randn(2, 1, 8, 8), tb.Moments(), progress=False, precision=torch.bfloat16)
