"""Predicting on a GPU: with compiled networks, with recorded ones, and how answers reach the host."""

from __future__ import annotations

import pytest
import torch

import tribayes as tb
from tribayes.prediction.collecting import _GROUP
from tribayes.recipes.networks import LeNet


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


@pytest.mark.parametrize("precision", [None, torch.bfloat16])
@pytest.mark.parametrize("where", [None, "conv*"])
@pytest.mark.parametrize("compiled", [False, True])
def test_captured_draws_and_passes_are_the_plain_ones(
    precision: torch.dtype | None, where: str | None, compiled: bool
) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    torch.backends.cudnn.deterministic = True
    model = tb.to_bayesian(LeNet(100), sampler="fused").cuda()
    images = torch.rand(70, 1, 28, 28, device="cuda")  # 70 = 32 + 32 + 6: the last batch has another shape
    asked = torch.compile(model, dynamic=False) if compiled else model
    options = {"progress": False, "precision": precision, "where": where, "batch_size": 32}
    plain = tb.predict(asked, images, 5, **options).samples
    for chunk_size in (None, 40):
        captured = tb.predict(asked, images, 5, captured=True, chunk_size=chunk_size, **options).samples
        torch.testing.assert_close(captured, plain, rtol=0, atol=1e-6)
    assert (plain[0] - plain[1]).abs().max() > 1e-4  # draws differ


def test_answers_reach_the_host_in_order_while_others_are_computed() -> None:
    torch.manual_seed(0)
    model = tb.to_bayesian(LeNet(100), sampler="fused").cuda()
    images = torch.rand(3000, 1, 28, 28, device="cuda")
    whole = tb.predict(model, images, 3 * _GROUP + 2, progress=False)
    for sample in range(whole.sample_count):
        alone = tb.predict(model, images, range(sample, sample + 1), progress=False).samples[0]
        torch.testing.assert_close(whole.samples[sample], alone, rtol=0, atol=1e-5)
    torch.testing.assert_close(whole.mean, whole.samples.mean(0), rtol=0, atol=1e-6)  # added up on the device


def test_samples_that_decide_their_number_reach_the_host() -> None:
    torch.manual_seed(0)
    model = tb.to_bayesian(LeNet(100), sampler="fused").cuda()
    images = torch.rand(20, 1, 28, 28, device="cuda")
    auto = tb.predict(model, images, tb.AutoSamples(first=20, cap=90, tolerance=1e-6), progress=False)
    assert auto.sample_count > 20
    assert torch.equal(auto.samples, tb.predict(model, images, auto.sample_count, progress=False).samples)


class Looking(torch.nn.Linear):
    """Asks the host about its outputs, which a recording cannot."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs = super().forward(inputs)
        return outputs if outputs.sum().item() > 0 else -outputs


def test_a_network_that_cannot_be_recorded_is_named_with_the_reason() -> None:
    model = tb.to_bayesian(Looking(4, 3), sampler="fused").cuda()
    with pytest.raises(ValueError, match=r"`captured` \(=True\) must be False for this network.*captur"):
        tb.predict(model, torch.rand(2, 4, device="cuda"), 3, progress=False, captured=True)
