"""Recorded draws and passes. A stand-in for CUDA graphs shows here that they are those of the plain loop."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.prediction.models import predict
from tribayes.prediction import recording

predicting = sys.modules["tribayes.prediction.predict"]  # the file, not the function of its name


def network(sampler: str = "fused") -> nn.Module:
    torch.manual_seed(0)
    two = [tb.to_bayesian(nn.Linear(*sizes), sampler=sampler) for sizes in ((4, 5), (5, 3))]
    return nn.Sequential(two[0], nn.ReLU(), two[1])


class Graphs:
    """Stands for CUDA graphs: running again writes the result where it was."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.replays = 0
        monkeypatch.setattr(recording, "_record", self.record)
        monkeypatch.setattr(predicting, "check_captured", lambda *_: None)

    def record(self, run: Callable[[], Tensor], _: torch.device) -> tuple[Callable[[], None], Tensor]:
        result = run()

        def again() -> None:
            self.replays += 1
            result.copy_(run())

        return again, result


@pytest.mark.parametrize("where", [None, "0.*"])
@pytest.mark.parametrize("chunk_size", [None, 4])
def test_recorded_draws_and_passes_are_those_of_the_loop(
    monkeypatch: pytest.MonkeyPatch, where: str | None, chunk_size: int | None
) -> None:
    model, inputs = network(), torch.randn(7, 4, generator=torch.Generator().manual_seed(1))
    options: dict[str, Any] = {"where": where, "chunk_size": chunk_size, "batch_size": 3, "seed": 2}
    expected = predict(model, inputs, 5, **options).samples
    graphs = Graphs(monkeypatch)
    assert torch.equal(predict(model, inputs, 5, captured=True, **options).samples, expected)
    assert graphs.replays >= 10  # two batches of three a draw; the last of one is run as it is


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, r"`captured` \(=True\) must be False for a model that is not on a GPU; leave it out, or move it"),
        ({"at_once": 2}, r"`captured` \(=True\) must be False with at_once or method=\"moments\""),
        ({"method": "moments"}, r"`captured` \(=True\) must be False with at_once or method=\"moments\""),
    ],
)
def test_what_cannot_be_captured_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        predict(network(), torch.rand(2, 4), captured=True, **options)


def test_a_capture_needs_the_fused_sampler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nn.Module, "parameters", lambda _: iter(()))  # none that is not on a GPU
    with pytest.raises(ValueError, match='unless the model draws by the fused sampler; convert with sampler="fused"'):
        recording.check_captured(True, network("torch"), 1, "samples")
