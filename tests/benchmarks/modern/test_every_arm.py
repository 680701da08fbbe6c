"""The part of docs/modern.md about a small network and every arm, from made-up runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.modern import archive
from benchmarks.modern.every_arm import section
from benchmarks.modern.keeping import Kept, keep, kept

VALUES = {"plain": ("weight_decay", (1e-4, 5e-4, 1e-3)), "ours": ("kl", (0.01, "auto", 0.1))}


def record(arm: str, value: Any, seed: int, nll: float, tested: bool) -> archive.Record:
    name, _ = VALUES[arm]
    decay, options = (value, {}) if name == "weight_decay" else (None, {name: value})
    cell = f"fashion-lenet100-{arm}-8ep-{name}_{value}"
    figures = {"error": 0.1, "nll": nll, "ece": 0.01, "brier": 0.1, "auroc_errors": 0.9, "scaled": {"nll": nll}}
    settings = {"data": "fashion", "network": "lenet100", "arm": arm, "seed": seed, "epochs": 8, "batch": 256}
    settings |= {"samples": 32, "lr": None, "weight_decay": decay, "options": options}
    made = {"name": f"{cell}-s{seed}", "cell": cell, "settings": settings, "held_out": figures}
    made["machine"] = {"cuda": None, "device": "a CPU"}
    return made | ({"test": figures | {"foreign": {"far": {"entropy": 0.9}}}} if tested else {})


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    """Three trials of each arm, of which the second was best, and three seeds of it."""
    for arm, (_, values) in VALUES.items():
        for value, nll in zip(values, (0.3, 0.25, 0.35), strict=True):
            archive.save(tmp_path / "trials", record(arm, value, 0, nll, tested=False), {}, {})
        for seed in range(3):
            nll = 0.26 + 0.001 * seed - (0.02 if arm == "ours" else 0)
            archive.save(tmp_path / "runs", record(arm, values[1], seed, nll, tested=True), {}, {})
    monkeypatch.setattr("benchmarks.modern.keeping._FEWEST", 4)  # ensembles need answers
    for folder in ("trials", "runs"):
        keep(tmp_path / folder, tmp_path / "kept")
    return kept(tmp_path / "kept")


def test_trials_are_kept_apart_from_what_saw_test_images(found: Kept) -> None:
    assert {cell: sorted(runs) for cell, runs in found.runs.items()} == {
        "fashion-lenet100-ours-8ep-kl_auto": [0, 1, 2],
        "fashion-lenet100-plain-8ep-weight_decay_0.0005": [0, 1, 2],
    }
    (trials,) = found.trials.values()
    assert len(trials) == 6
    assert all(trial.keys() == {"cell", "settings", "held_out"} for trial in trials)


def test_every_trial_is_shown_and_the_best_is_bold(found: Kept) -> None:
    page = section(*found)
    assert "| plain | decay | 0.0001: 0.3000 | **0.0005: 0.2500** | 0.001: 0.3500 |" in page
    assert "| ours, diagonal | kl_weight | **auto: 0.2500** | 0.01: 0.3000 | 0.1: 0.3500 |" in page


def test_arms_are_compared_seed_by_seed(found: Kept) -> None:
    page = section(*found)
    assert "| ours, diagonal | 3 | 10.00 ± 0.00 | 0.2410 ± 0.0006 |" in page
    assert "**−0.0200** (−0.0200 to −0.0200)" in page


def test_without_such_runs_there_is_no_section() -> None:
    assert section({}, {}, {}) == ""
