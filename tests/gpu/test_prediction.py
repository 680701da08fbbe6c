"""Predicting with a compiled network on a GPU."""

from __future__ import annotations

import pytest
import torch

import tribayes as tb
from tribayes.experiments.models import LeNet


@pytest.mark.parametrize("precision", [None, torch.bfloat16])
def test_a_compiled_network_says_what_the_network_says(precision: torch.dtype | None) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = tb.to_bayesian(LeNet(100), sampler="fused").cuda()
    images = torch.rand(32, 1, 28, 28, device="cuda")
    expected = tb.predict(model, images, 5, progress=False).samples
    compiled = torch.compile(model, dynamic=False)
    samples = tb.predict(compiled, images, 5, progress=False, precision=precision).samples
    # probabilities near 0.1 of untrained networks; TF32 has ten bits behind the point, bfloat16 seven
    torch.testing.assert_close(samples, expected, rtol=0, atol=1e-3 if precision is None else 8e-3)
    assert (samples - expected).abs().max() > 0  # other sums, so other roundings
