"""Equal tuning: every arm has as many trials, and only the best of them is asked about test images."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.modern import __main__ as command
from benchmarks.modern import archive, sources
from benchmarks.modern.arms import ARMS
from benchmarks.modern.every_arm import OWN
from benchmarks.modern.tuned import KL_WEIGHTS, TRIALS, tune_and_run, values_of
from tests.benchmarks.modern.small import study

pytestmark = pytest.mark.usefixtures("tiny")
USUAL = ["--data", "noise", "--network", "tiny", "--epochs", "1", "--batch", "16", "--samples", "2", "--device", "cpu"]


def test_every_arm_has_three_trials() -> None:
    assert ARMS.keys() == OWN.keys()
    for network in KL_WEIGHTS:
        assert {len(set(values_of(arm, network))) for arm in ARMS} == {3}


def here(words: list[str]) -> int:
    command.main(words)
    return 0


def test_the_best_trial_is_run_with_all_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "load", lambda *_: study())
    assert tune_and_run(USUAL, "tiny", ["plain", "dropout"], range(2), tmp_path, 1, here) == []
    trials, runs = (archive.records(tmp_path / name) for name in ("trials", "runs"))
    assert len(trials) == 6
    assert not any("test" in trial for trial in trials)
    best = min((one for one in trials if one["settings"]["arm"] == "dropout"), key=lambda one: one["held_out"]["nll"])
    tested = [one["settings"] for one in runs if one["settings"]["arm"] == "dropout"]
    assert [one["options"] for one in tested] == [best["settings"]["options"]] * 2
    assert sorted(one["seed"] for one in tested) == [0, 1]
    assert all("test" in run for run in runs)
    assert len(runs) == 4


def test_what_failed_is_named(tmp_path: Path) -> None:
    failed = tune_and_run(USUAL, "tiny", ["dropout"], range(2), tmp_path, 2, lambda words: int("0.1" in words))
    assert [words[words.index("--dropout") + 1] for words in failed] == ["0.1"]
    assert TRIALS["dropout"][1] == 0.1


def test_the_command_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.modern.tuned._process", lambda _: 1)
    words = ["tuned", "--data", "noise", "--network", "tiny", "--arm", "swag", "--to", str(tmp_path)]
    with pytest.raises(
        SystemExit, match=r"^3 jobs failed; the first: run --data noise .* --arm swag --rate held --seed 0"
    ):
        command.main(words)
