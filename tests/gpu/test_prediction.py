"""Predicting on a GPU: with compiled networks, with recorded ones, and how answers reach the host."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.compiling import draws_are_compiled
from tribayes.prediction import sampled
from tribayes.prediction.sampled import _GROUP

SAMPLES = 20  # of three batches: enough passes for a recording

pytestmark = [draws_are_compiled, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Convolutional(nn.Module):
    """Two convolutions and two linear layers, for images of 28 × 28."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 20, 5), nn.Conv2d(20, 50, 5)
        self.fc1, self.fc2 = nn.Linear(800, 100), nn.Linear(100, 10)

    def forward(self, images: Tensor) -> Tensor:
        hidden = nn.functional.max_pool2d(self.conv1(images), 2)
        hidden = nn.functional.max_pool2d(self.conv2(hidden), 2)
        return self.fc2(torch.relu(self.fc1(hidden.flatten(1))))


def model() -> tb.BayesianModule:
    torch.manual_seed(0)
    return tb.to_bayesian(Convolutional()).cuda()


@pytest.mark.parametrize("precision", [None, torch.bfloat16])
def test_a_compiled_network_says_what_the_network_says(precision: torch.dtype | None) -> None:
    made, images = model(), torch.rand(32, 1, 28, 28, device="cuda")
    expected = tb.predict(made, images, 5, progress=False).samples
    compiled = torch.compile(made, dynamic=False)
    samples = tb.predict(compiled, images, 5, progress=False, precision=precision).samples
    # probabilities near 0.1 of untrained networks; TF32 has ten bits behind the point, bfloat16 seven
    torch.testing.assert_close(samples, expected, rtol=0, atol=1e-3 if precision is None else 8e-3)
    assert (samples - expected).abs().max() > 0  # other sums, so other roundings


@pytest.mark.parametrize("precision", [None, torch.bfloat16])
@pytest.mark.parametrize("where", [None, "conv*"])
@pytest.mark.parametrize("chunks", [False, True])
def test_recorded_draws_and_passes_are_the_plain_ones(
    precision: torch.dtype | None, where: str | None, chunks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    images = torch.rand(70, 1, 28, 28, device="cuda")  # 70 = 32 + 32 + 6: the last batch has another shape
    compiled = torch.compile(model(), dynamic=False)
    options = {"progress": False, "precision": precision, "where": where, "batch_size": 32}
    recorded: list[object] = []
    original = sampled.RecordedAsking.__call__
    monkeypatch.setattr(sampled.RecordedAsking, "__call__", lambda *given: (recorded.append(1), original(*given))[1])
    with monkeypatch.context() as patch:
        patch.setattr(sampled, "_WORTH_RECORDING", 10**9)
        plain = tb.predict(compiled, images, SAMPLES, **options).samples
    assert not recorded
    if chunks:
        module = import_module("tribayes.prediction.predict")  # whose function hides it in the package
        monkeypatch.setattr(module, "_CHUNK_BYTES", SAMPLES * 40 * 10 * 4)
    samples = tb.predict(compiled, images, SAMPLES, **options).samples
    assert len(recorded) >= SAMPLES
    torch.testing.assert_close(samples, plain, rtol=0, atol=1e-6)
    assert (plain[0] - plain[1]).abs().max() > 1e-4  # draws differ


def test_named_inputs_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = Convolutional()

        def forward(self, images: Tensor, scale: Tensor) -> dict[str, Tensor]:
            return {"logits": self.body(images * scale[:, None, None, None])}

    made = tb.to_bayesian(Named()).cuda()
    inputs = {"images": torch.rand(70, 1, 28, 28), "scale": torch.rand(70)}  # on the host: they are moved
    recorded: list[object] = []
    original = sampled.RecordedAsking.__call__
    monkeypatch.setattr(sampled.RecordedAsking, "__call__", lambda *given: (recorded.append(1), original(*given))[1])
    options = {"progress": False, "batch_size": 32}
    plain = tb.predict(made, inputs, SAMPLES, **options).samples
    assert not recorded
    samples = tb.predict(torch.compile(made, dynamic=False), inputs, SAMPLES, **options).samples
    assert len(recorded) == SAMPLES
    torch.testing.assert_close(samples, plain, rtol=0, atol=1e-3)  # compiled convolutions round differently


def test_a_network_that_is_not_compiled_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "RecordedAsking", lambda *_: pytest.fail("recorded"))
    tb.predict(model(), torch.rand(40, 1, 28, 28, device="cuda"), SAMPLES, progress=False)


def test_answers_reach_the_host_in_order_while_others_are_computed() -> None:
    made, images = model(), torch.rand(3000, 1, 28, 28, device="cuda")
    whole = tb.predict(made, images, 3 * _GROUP + 2, progress=False)
    for sample in range(whole.sample_count):
        alone = tb.predict(made, images, range(sample, sample + 1), progress=False).samples[0]
        torch.testing.assert_close(whole.samples[sample], alone, rtol=0, atol=1e-5)
    torch.testing.assert_close(whole.mean, whole.samples.mean(0), rtol=0, atol=1e-6)  # added up on the device


def test_samples_that_decide_their_number_reach_the_host() -> None:
    made, images = tb.to_bayesian(Convolutional(), tau=1.0).cuda(), torch.rand(20, 1, 28, 28, device="cuda")
    auto = tb.predict(made, images, tb.AutoSamples(first=2, cap=90, tolerance=1e-6), progress=False)
    assert auto.sample_count > 2
    assert torch.equal(auto.samples, tb.predict(made, images, auto.sample_count, progress=False).samples)


class Looking(nn.Linear):
    """Asks the host about its outputs, which a recording cannot."""

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = super().forward(inputs)
        return outputs if outputs.sum().item() > 0 else -outputs


def test_a_compiled_network_that_cannot_be_recorded_answers_all_the_same() -> None:
    torch.manual_seed(0)
    made, inputs = tb.to_bayesian(Looking(4, 3)).cuda(), torch.rand(2, 4, device="cuda")
    expected = tb.predict(made, inputs, SAMPLES, progress=False).samples
    compiled = torch.compile(made, dynamic=False)
    torch.testing.assert_close(
        tb.predict(compiled, inputs, SAMPLES, progress=False).samples, expected, rtol=0, atol=1e-3
    )
