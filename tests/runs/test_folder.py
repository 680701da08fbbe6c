"""A run as a folder: what it holds, and what is said where something is wrong with it."""

import json
import re
from pathlib import Path

import pytest
import torch

import tribayes as tb
from tests.recipes.small import CPU, digits, names, new_run, session, setting, timeless
from tests.test_bad_disks import nobody
from tribayes._files import only_one
from tribayes.recipes.recipe_run import RecipeRun
from tribayes.runs import train_sessions
from tribayes.runs.batches import digest


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RecipeRun:
    started = session(tmp_path_factory.mktemp("run") / "new" / "folder", seed=3)
    train_sessions([started], progress=False)
    return started.run


def refused(text: str) -> object:
    return pytest.raises(ValueError, match=re.escape(text))


def test_what_a_finished_run_holds(finished: RecipeRun) -> None:
    assert names(finished.folder) == [
        "checkpoint.safetensors",
        "config.json",
        "environment.json",
        "final.safetensors",
        "metrics.jsonl",
        "posterior.json",
    ]
    config = json.loads(finished.path("config.json").read_text())
    assert config.pop("sha256") == digest({}, config)
    assert config == {"format": 1, "setting": setting().as_dict(), "seed": 3, "device": "cpu", "threads": 1}
    environment = finished.environment()
    assert environment["tribayes"] == tb.__version__
    assert environment["torch"] == torch.__version__
    assert environment["device"]
    assert environment["threads"] == 1


def test_the_posterior_is_that_of_the_trained_network(finished: RecipeRun) -> None:
    rows = json.loads(finished.path("posterior.json").read_text())
    table = finished.network(CPU).posterior()
    assert [row["name"] for row in rows] == [row.name for row in table]
    assert [(row["tau"], row["rho"], row["K"]) for row in rows] == [(row.tau, row.rho, row.K) for row in table]
    last = finished.records()[-1]
    assert dict(last.tau) == {row.name: row.tau for row in table}
    assert dict(last.rho) == {row.name: row.rho for row in table}


def test_the_records(finished: RecipeRun) -> None:
    records = timeless(finished.metrics)
    assert [record["iteration"] for record in records] == [10, 20, 25]
    assert records[-1]["learning_rate"] == pytest.approx(0.02 * (1 + 0.001 * 24) ** -0.75)
    assert all(record["loss"] > record["nll"] > 0 for record in records)


def test_open_finds_what_create_made(finished: RecipeRun) -> None:
    assert RecipeRun.open(finished.folder) == finished


def test_a_folder_in_use_is_refused(finished: RecipeRun, tmp_path: Path) -> None:
    remedy = "must be a new or empty folder; continue the run in it with --resume, or choose another folder with --run."
    with refused(f"`--run` (={str(finished.folder)!r}) {remedy}"):
        new_run(finished.folder, 0)
    file = tmp_path / "file"
    file.write_text("")
    with refused(remedy):
        new_run(file, 0)
    assert new_run(tmp_path / "empty", 0).finished is False


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with refused(f"`RUN` (={str(tmp_path)!r}) must be the folder of a run, with a config.json; "):
        RecipeRun.open(tmp_path)
    config = tmp_path / "config.json"
    config.write_text("{")
    with refused(f"{config} is damaged: it is no JSON ("):
        RecipeRun.open(tmp_path)
    for other in ("[]", '{"format": 2}'):
        config.write_text(other)
        with refused(f"{config} is not of a run of format 1; use the tribayes that wrote it"):
            RecipeRun.open(tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o555)
    with nobody(), pytest.raises(OSError, match="Permission denied"):
        new_run(tmp_path / "closed" / "run", 0)


def test_a_run_that_is_not_finished_has_no_network(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r", 0)
    remedy = f"finish it, as with: tribayes fit --resume --run {run.folder}."
    with refused(f"must be finished, but it has no final.safetensors; {remedy}"):
        run.network(CPU)
    with refused(f"must have an evaluation.json; make one, as with: tribayes evaluate {run.folder}."):
        run.evaluation()


def test_the_network_of_another_run_is_refused(finished: RecipeRun, tmp_path: Path) -> None:
    run = new_run(tmp_path / "r", 4)
    run.final.write_bytes(finished.final.read_bytes())
    with refused("final.safetensors belongs to another run: its seed is 3, not 4"):
        run.network(CPU)
    run.final.write_bytes(finished.final.read_bytes()[:-1])
    with refused("remove it, and make it anew from the last checkpoint with --resume."):
        run.network(CPU)


def test_a_frequentist_network_has_no_posterior(tmp_path: Path) -> None:
    started = session(tmp_path / "r", family="frequentist", iterations=3)
    train_sessions([started], progress=False)
    assert not started.run.path("posterior.json").exists()
    images = digits()[1].inputs
    loaded = started.run.network(CPU)
    assert torch.equal(loaded(images), started.trainer.model(images))


def test_an_evaluation_carries_where_it_comes_from(finished: RecipeRun) -> None:
    finished.save_evaluation({"error": 0.25}, CPU)
    found = finished.evaluation()
    finished.path("evaluation.json").unlink()
    assert (found["error"], found["seed"], found["name"], found["iterations"]) == (0.25, 3, "digits", 25)
    assert found["environment"]["torch"] == torch.__version__


def test_another_environment_is_written_down(tmp_path: Path) -> None:
    run = new_run(tmp_path / "r", 0)
    assert run.note_resumption(10) == []
    assert "resumed" not in run.environment()
    path = run.path("environment.json")
    path.write_text(json.dumps(run.environment() | {"torch": "1.0"}))
    assert run.note_resumption(20) == [f"torch was 1.0, is {torch.__version__}"]
    assert run.environment()["torch"] == "1.0"
    assert [(entry["iteration"], entry["torch"]) for entry in run.environment()["resumed"]] == [(20, torch.__version__)]


def test_one_process_at_a_time(tmp_path: Path) -> None:
    def enter() -> None:
        with only_one(tmp_path):
            pass

    with only_one(tmp_path), refused("must be free, but another process trains in it; wait for it, or choose"):
        enter()
    enter()
