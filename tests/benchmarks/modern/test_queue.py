"""The queue writes each result at once, skips what is there or does not fit, and goes on after a failure."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.modern import __main__ as command
from benchmarks.modern import archive, sources
from benchmarks.modern.arms import ARMS, Plain
from benchmarks.modern.keeping import keep, kept
from benchmarks.modern.runs import Broken, Queue, expected_seconds, planned
from benchmarks.modern.table import ensembles, table
from tests.benchmarks.modern.small import CLASSES, HELD_OUT, TEST, settings, study
from tests.patience import PATIENCE
from tribayes._graphs import CaptureFailed

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.usefixtures("tiny")


class Failing(Plain):
    """An arm that raises in its first step."""

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        raise RuntimeError(f"no step for {len(images)} images and {len(labels)} labels")


def queue(folder: Path, **changes: Any) -> tuple[Queue, list[str]]:
    said: list[str] = []
    return Queue(study(), folder, say=said.append, **changes), said


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_run_is_written_down(tmp_path: Path) -> None:
    one, said = queue(tmp_path)
    run = settings("ours", epochs=2)
    one.run([run])
    assert files(tmp_path) == [f"{run.name}.json", f"{run.name}.npz"]
    record = json.loads((tmp_path / f"{run.name}.json").read_text())
    assert record["settings"] == run.as_dict()
    assert len(record["loss"]) == 2
    assert record["steps"] == 6
    assert record["machine"]["torch"] == torch.__version__
    assert record["seconds"].keys() == {"train", "finish", "held_out"}
    assert {"error", "nll", "ece", "brier", "auroc_errors", "certain", "scaled"} <= record["held_out"].keys()
    assert sum(record["held_out"]["certain"].values()) == HELD_OUT
    assert record["posterior"]["head.weight"]["tau"] > 0
    assert "test" not in record
    assert any("6 steps of 16 images, about" in text and "GiB" in text for text in said)
    assert sum("epoch" in text for text in said) == 2


def test_answers_come_back_with_their_small_probabilities(tmp_path: Path) -> None:
    answers = torch.tensor([[1 - 1e-9, 1e-9], [0.25, 0.75]], dtype=torch.float64)
    archive.save(tmp_path, {"name": "x"}, {"test": answers}, {"test_labels": torch.tensor([1, 0])})
    stored = archive.answers(tmp_path, "x")
    torch.testing.assert_close(stored["test"].double(), answers, rtol=0.01, atol=0)
    assert stored["test_labels"].tolist() == [1, 0]


def test_a_figure_that_is_no_number_costs_no_run(tmp_path: Path) -> None:
    archive.save(tmp_path, {"name": "x", "held_out": {"nll": float("nan"), "each": [float("inf"), 1]}}, {}, {})
    assert archive.records(tmp_path) == [{"name": "x", "held_out": {"nll": None, "each": [None, 1]}}]


def test_what_is_there_is_skipped(tmp_path: Path) -> None:
    plan = [settings("plain"), settings("plain", seed=1)]
    queue(tmp_path)[0].run(plan[:1])
    before = (tmp_path / f"{plan[0].name}.json").read_bytes()
    again, said = queue(tmp_path)
    again.run(plan)
    assert "is there" in said[1]
    assert (tmp_path / f"{plan[0].name}.json").read_bytes() == before
    assert len(archive.records(tmp_path)) == 2


def test_test_images_are_seen_only_on_demand(tmp_path: Path) -> None:
    run = settings("ours")
    queue(tmp_path)[0].run([run])
    assert archive.answers(tmp_path, run.name).keys() == {"held_out", "held_out_labels"}
    queue(tmp_path, test=True)[0].run([run])  # what is there has not been tested
    (record,) = archive.records(tmp_path)
    tested = record["test"]
    assert tested.keys() >= {"error", "nll", "scaled", "foreign", "people", "corrupted"}
    assert tested["foreign"]["near"].keys() == {"entropy", "epistemic"}
    assert tested["corrupted"].keys() == {"mean", "noise", "dark"}
    kinds = [tested["corrupted"][kind]["nll"] for kind in ("noise", "dark")]
    assert tested["corrupted"]["mean"]["nll"] == pytest.approx(sum(kinds) / 2)
    stored = archive.answers(tmp_path, run.name)
    assert stored["test"].shape == (TEST, CLASSES)
    assert stored["corrupted_dark_2"].shape == (10, CLASSES)
    assert "foreign_far" in stored
    queue(tmp_path)[0].run([run])
    assert "test" in archive.records(tmp_path)[0]


def test_a_failing_arm_is_recorded_and_the_queue_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ARMS, "swag", Failing)
    plan = [settings("swag", options={}), settings("plain")]
    one, said = queue(tmp_path)
    one.run(plan)
    assert [record["name"] for record in archive.records(tmp_path)] == [plan[1].name]
    (failure,) = archive.failures(tmp_path)
    assert "no step for 16 images" in failure["error"]
    assert "test_queue.py:" in failure["error"]
    assert str(ROOT) not in failure["error"]
    assert "failed: RuntimeError" in "\n".join(said)
    assert "failed: noise-tiny-swag" in table(tmp_path)


def test_failures_are_repeated_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = settings("plain")
    with monkeypatch.context() as patch:
        patch.setitem(ARMS, "plain", Failing)
        queue(tmp_path)[0].run([run])
    again, said = queue(tmp_path)
    again.run([run])
    assert "failed before" in said[1]
    queue(tmp_path, retry=True)[0].run([run])
    assert archive.failures(tmp_path) == []
    assert len(archive.records(tmp_path)) == 1


def test_a_gpu_that_is_broken_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise CaptureFailed("operation not permitted")

    monkeypatch.setattr("benchmarks.modern.runs.train", fail)
    with pytest.raises(Broken):
        queue(tmp_path)[0].run([settings("plain")])
    assert len(archive.failures(tmp_path)) == 1


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tribayes._files.os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        queue(tmp_path)[0].run([settings("plain")])
    assert files(tmp_path) == []


SCRIPT = """
import sys
from pathlib import Path
from benchmarks.modern import networks
from benchmarks.modern.runs import Queue
from tests.benchmarks.modern.small import NETWORKS, settings, study
networks.NETWORKS |= NETWORKS
say = lambda text: print(text, flush=True)
Queue(study(), Path(sys.argv[1]), say=say).run([settings("plain"), settings("plain", epochs=100_000)])
"""


def test_a_killed_run_leaves_no_half_file(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([f"{ROOT / 'src'}", str(ROOT), os.environ["PYTHONPATH"]])}
    words = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "epoch   2 of 100000" in line:
                process.send_signal(signal.SIGKILL)
                break
    assert files(tmp_path) == [f"{settings('plain').name}.json", f"{settings('plain').name}.npz"]
    assert len(archive.records(tmp_path)) == 1


def test_what_does_not_fit_is_not_begun(tmp_path: Path) -> None:
    run = settings("plain")
    queue(tmp_path)[0].run([run])
    taken = archive.records(tmp_path)[0]["seconds"]
    short, said = queue(tmp_path, seconds=10.0)
    short.run([settings("plain", seed=1, epochs=round(100 / taken["train"]) + 1)])
    assert "would take" in said[1]
    assert len(archive.records(tmp_path)) == 1


def test_expected_seconds() -> None:
    def record(arm: str, train: float, **more: float) -> archive.Record:
        return {"settings": settings(arm, epochs=10).as_dict(), "seconds": {"train": train, "finish": 1, **more}}

    known = [record("plain", 20, held_out=2, test=30), record("ours", 30, held_out=4)]
    assert expected_seconds(settings("plain", epochs=30), known, test=False) == 60 + 1 + 2 * 2
    assert expected_seconds(settings("plain", epochs=30), known, test=True) == 60 + 1 + 2 * 2 + 30
    assert expected_seconds(settings("ours", epochs=10), known, test=False) == 30 + 1 + 2 * 4
    assert expected_seconds(settings("swag", epochs=10), known, test=False) == 2 * (30 + 1 + 2 * 4)
    assert expected_seconds(settings("laplace", epochs=10), known[:1], test=False, trained=True) == 2 * (1 + 2 * 2)
    assert expected_seconds(settings("ours", network="vit"), known, test=False) == 0


def test_a_run_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    one, said = queue(tmp_path, seconds=3.0)
    begin = time.perf_counter()
    one.run([settings("plain", epochs=100_000)])
    assert time.perf_counter() - begin < PATIENCE
    assert "given up" in "\n".join(said)
    assert list(tmp_path.iterdir()) == []


def test_laplace_costs_no_second_training(tmp_path: Path) -> None:
    one, said = queue(tmp_path)
    one.run([settings("plain"), settings("laplace")])
    assert sum("epoch" in text for text in said) == 1
    first, second = sorted(archive.records(tmp_path), key=lambda record: record["settings"]["arm"] != "plain")
    assert second["seconds"]["train"] >= first["seconds"]["train"]


def test_the_plan_has_seeds_outermost_and_only_own_options() -> None:
    base = {"data": "noise", "network": "tiny", "epochs": 1}
    plan = planned(base, ["plain", "ours"], [0, 1], {"kl": [0.1, "auto"], "dropout": [0.2]})
    assert [(one.seed, one.arm, one.options.get("kl")) for one in plan] == [
        (0, "plain", None),
        (0, "ours", 0.1),
        (0, "ours", "auto"),
        (1, "plain", None),
        (1, "ours", 0.1),
        (1, "ours", "auto"),
    ]
    assert all("dropout" not in one.options for one in plan)
    assert len({one.name for one in plan}) == len(plan)
    assert plan[1].name == "noise-tiny-ours-1ep-kl_0.1-prior_relative-tau_0.05-draws_one-decay_all-s0"


def test_the_table(tmp_path: Path) -> None:
    assert "no results" in table(tmp_path)
    plan = [settings(arm, seed=seed) for seed in range(4) for arm in ("plain", "ours")]
    queue(tmp_path, test=True)[0].run(plan)
    text = table(tmp_path)
    rows = [line for line in text.splitlines() if "noise-tiny" in line]
    assert len(rows) == 4  # two arms and their ensembles
    assert sum(line.startswith("4 × ") for line in rows) == 2
    assert "±" in rows[0]
    assert "shift NLL" not in text
    tested = table(tmp_path, test=True)
    assert "shift NLL" in tested
    assert "plain networks: noise-tiny-ours" in tested


def test_an_ensemble_of_equals_is_one_of_them(tmp_path: Path) -> None:
    one = settings("plain")
    queue(tmp_path, test=True)[0].run([one])
    (record,) = archive.records(tmp_path)
    (found,) = ensembles(tmp_path, dict.fromkeys(range(4), record), "test")
    assert found["nll"] == pytest.approx(record["test"]["nll"], rel=1e-3)
    assert found["scaled"]["nll"] == pytest.approx(record["test"]["scaled"]["nll"], rel=1e-3)
    assert found["corrupted"]["mean"]["nll"] == pytest.approx(record["test"]["corrupted"]["mean"]["nll"], rel=1e-3)
    assert found["foreign"]["far"]["entropy"] == pytest.approx(record["test"]["foreign"]["far"]["entropy"], rel=0.05)


def test_three_seeds_make_an_ensemble_that_is_kept(tmp_path: Path) -> None:
    queue(tmp_path / "runs", test=True)[0].run([settings("plain", seed=seed) for seed in range(3)])
    keep(tmp_path / "runs", tmp_path / "kept")
    ((cell, found),) = kept(tmp_path / "kept").ensembles.items()
    assert found["cell"] == cell == settings("plain").cell
    assert len(found["members"]) == len(found["log_likelihoods"]) == 3
    single = [record["test"]["nll"] for record in archive.records(tmp_path / "runs")]
    assert found["figures"]["nll"] < sum(single) / 3  # by Jensen's inequality


def test_the_table_counts_right(tmp_path: Path) -> None:
    for arm, errors in {"plain": (0.1, 0.3), "ours": (0.05, 0.2)}.items():
        for seed, error in enumerate(errors):
            run = settings(arm, seed=seed)
            record = {"name": run.name, "cell": run.cell, "settings": run.as_dict(), "seconds": {"train": 5.0}}
            archive.save(tmp_path, record | {"held_out": {"error": error}}, {}, {})
    ours = next(line for line in table(tmp_path).splitlines() if "tiny-ours" in line)
    assert "12.50 ± 7.50" in ours
    assert "-7.50 ± 2.50" in ours


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sources, "load", lambda *_: study())
    words = "run --data noise --network tiny --arm plain dropout --seed 0 1 --epochs 1 --batch 16 --samples 2"
    command.main([*words.split(), "--dropout", "0.2", "--device", "cpu", "--to", str(tmp_path), "--seconds", "300"])
    assert len(archive.records(tmp_path)) == 4
    command.main(["table", str(tmp_path)])
    assert "noise-tiny-dropout-1ep-dropout_0.2" in capsys.readouterr().out


def test_a_broken_gpu_is_left_for_a_fresh_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[list[str]] = []

    def broken(self: Queue, plan: object) -> None:
        raise Broken(f"of {self.folder}, {plan}")

    monkeypatch.setattr(sources, "load", lambda *_: study())
    monkeypatch.setattr(Queue, "run", broken)
    monkeypatch.setattr(os, "execv", lambda program, words: begun.append([program, *words]))
    words = ["run", "--data", "noise", "--network", "tiny", "--arm", "plain", "--to", str(tmp_path), "--retry"]
    command.main([*words, "--seconds", "100", "--device", "cpu"])
    assert "--retry" not in begun[0]
    assert begun[0][-2] == "--seconds"
    assert float(begun[0][-1]) <= 100
