"""Small versions of `python -m tests.large`: long trainings, streamed rows, large draws."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

import tribayes as tb
from tests.large import draws, rows, steps
from tests.large.__main__ import main
from tests.statistics.section import large
from tribayes.runs.environment import choose_device, device_name


def test_a_training_stays_finite_and_within_its_bounds() -> None:
    found = steps.train(60)
    assert found["steps"] == 60
    assert 0 < found["tau_least"] <= found["tau_largest"]
    assert 0 <= found["rho_largest"] < 0.5


@pytest.mark.parametrize(
    ("tau", "rho"), [(1e-6, 0.1), (float("nan"), 0.1), (0.1, 0.49999), (0.1, float("nan")), (float("inf"), 0.0)]
)
def test_numbers_beyond_their_bounds_are_noticed(tau: float, rho: float) -> None:
    with pytest.raises(ArithmeticError, match="left its bounds"):
        steps.check_bounds(torch.tensor([0.1, tau]), torch.tensor([0.1, rho]))


@pytest.mark.parametrize(
    ("tau", "rho"), [(0.0, 0.1), (float("nan"), 0.1), (0.1, 0.5), (0.1, float("nan")), (float("inf"), 0.0)]
)
def test_numbers_beyond_their_range_are_noticed_before_guards_mend_them(tau: float, rho: float) -> None:
    steps.check_range(torch.tensor([0.1, 1e-6]), torch.tensor([0.1, 0.49999]))
    with pytest.raises(ArithmeticError, match="left its range"):
        steps.check_range(torch.tensor([0.1, tau]), torch.tensor([0.1, rho]))


def test_a_loader_is_not_held() -> None:
    """400,000 rows are 14 MB; what is held grows by less, but for the answer."""
    found = rows.stream(400_000)
    assert found["data_bytes"] > 14e6
    assert found["fit_growth_bytes"] < 10e6
    assert found["predict_growth_bytes"] < 2.5 * found["answer_bytes"]


@pytest.mark.parametrize("count", [1, 15, 16, 1000, 3 * 4096 + 5])
def test_every_weight_of_a_draw_is_what_its_normals_make(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(draws, "PIECE", 4096)
    found = draws.compare(count)
    assert found["worst"] < draws.TOLERANCE
    weights = torch.full((count,), draws.MEAN)
    worst, last = draws.errors(weights)
    assert worst >= last > 0.001


def test_a_draw_that_does_not_fit_is_refused() -> None:
    text = r"^a draw of 10,000,000,000,000 weights takes 149011\.6 GiB beside its means; [0-9.]+ are free$"
    with pytest.raises(SystemExit, match=text):
        draws.compare(10**13)


def test_the_steps_say_where_they_were_and_the_page_too(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    main(["steps", "--count", "20", "--out", str(path)])
    found = json.loads(path.read_text())
    assert found["steps"]["device"] == device_name(choose_device("auto"))
    found["steps"] |= {"steps": 1_000_000, "device": "NVIDIA H200"}
    text = large(found)
    assert "A training of 1,000,000 steps of a small network on NVIDIA H200 ended with a loss of" in text
    assert "has not been run" not in text


def test_a_loss_that_is_not_finite_ends_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU no step looks at its own."""
    step = tb.TrainingStep.__call__

    def lost(self: tb.TrainingStep, *batch: torch.Tensor) -> tb.ELBOTerms:
        return step(self, *batch)._replace(loss=torch.tensor(math.nan))

    monkeypatch.setattr(tb.TrainingStep, "__call__", lost)
    with pytest.raises(ArithmeticError, match="the loss of step 1 is nan"):
        steps.train(20)


def test_figures_are_stored(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    main(["draw", "--count", "100", "--out", str(path)])
    assert json.loads(path.read_text())["draw"]["weights"] == 100
