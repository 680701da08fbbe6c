"""A run that was killed, at any point, ends as if nothing had happened: the same weights, the same records."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.recipes.small import Answer, names, session, timeless, tribayes
from tribayes.recipes.recipe_run import RecipeRun
from tribayes.runs.session import read_checkpoint

ROOT = Path(__file__).parents[2]
OPTIONS = ("--iterations", "60", "--threads", "1", "--checkpoint-seconds", "0")  # a checkpoint every ten steps


def start(where: str, count: int, *words: object) -> subprocess.Popen[str]:
    """The command line in another process, to be killed or not."""
    command = [sys.executable, "-m", "tests.recipes.killed", where, str(count), *map(str, words)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def assert_same(folder: Path, whole: Path) -> None:
    """Every bit of the result, and every record but for its time."""
    for name in ("final.safetensors", "posterior.json"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes(), name
    assert timeless(folder / "metrics.jsonl") == timeless(whole / "metrics.jsonl")
    assert not [name for name in names(folder) if name.endswith(".new")]


def resume(folder: Path) -> Answer:
    answer = tribayes("fit", "--resume", "--run", folder, "--checkpoint-seconds", "0")
    assert (answer.code, answer.err) == (0, "")
    return answer


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert tribayes("fit", "--run", folder, *OPTIONS).code == 0
    return folder


@pytest.mark.parametrize(
    ("where", "count", "place"),
    [
        ("step", 7, "at the beginning: it had no checkpoint yet"),
        ("step", 37, "at iteration 30"),
        ("rename", 5, "at iteration 10"),  # the old checkpoint is about to become the previous one
        ("rename", 8, "at iteration 20"),  # the new checkpoint is written, and about to get its name
        ("rename", 16, "at iteration 60"),  # all but the trained network is there
    ],
)
def test_killed_and_resumed(tmp_path: Path, whole: Path, where: str, count: int, place: str) -> None:
    folder = tmp_path / "run"
    process = start(where, count, "fit", "--run", folder, *OPTIONS)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (-signal.SIGKILL, ""), out
    assert not RecipeRun.open(folder).finished
    assert resume(folder).out.startswith(f"{folder} goes on {place}\n")
    assert_same(folder, whole)


def test_killed_from_outside_twice(tmp_path: Path, whole: Path) -> None:
    folder = tmp_path / "run"
    for resumed in (False, True):
        options = ("--resume", *OPTIONS) if resumed else OPTIONS
        process = start("slow", 200, "fit", "--run", folder, *options)
        assert process.stdout is not None
        for line in process.stdout:  # its first pause: it trains
            if line.startswith("digits: "):
                break
        process.kill()
        process.communicate(timeout=PATIENCE)
        assert process.returncode == -signal.SIGKILL
    resume(folder)
    assert_same(folder, whole)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop(tmp_path: Path, whole: Path, number: signal.Signals) -> None:
    folder = tmp_path / "run"
    # no checkpoint by time: the one that is there in the end came with the signal
    process = start(
        "slow", 200, "fit", "--run", folder, "--iterations", 60, "--threads", 1, "--checkpoint-seconds", 900
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    assert first.startswith("digits: 10 of 60")
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (128 + number, "")
    assert f"stopped by {number.name}; continue with:\n  tribayes fit --resume --run {folder}\n" in out
    run = RecipeRun.open(folder)
    stopped = read_checkpoint(run)[1]["iteration"]
    assert 10 <= stopped < 60
    assert resume(folder).out.startswith(f"{folder} goes on at iteration {stopped}\n")
    assert_same(folder, whole)


def test_a_torn_checkpoint_is_not_passed_over(tmp_path: Path, whole: Path) -> None:
    folder = tmp_path / "run"
    started = session(folder, iterations=60)
    for _ in range(3):
        started.trainer.advance(10)
        started.pause()
        started.checkpoint()
    path = folder / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    answer = tribayes("fit", "--resume", "--run", folder)
    assert answer.code == 1
    assert answer.err.startswith(f"error: {path} is torn or no safetensors file (")
    previous = folder / "previous-checkpoint.safetensors"
    assert answer.err.endswith(f"; to continue from the checkpoint before it, rename {previous} to {path.name}.\n")
    previous.rename(path)
    assert resume(folder).out.startswith(f"{folder} goes on at iteration 20\n")
    assert_same(folder, whole)


def test_the_same_seed_gives_the_same_run_and_another_does_not(tmp_path: Path, whole: Path) -> None:
    assert tribayes("fit", "--run", tmp_path / "same", "--seed", 0, *OPTIONS).code == 0
    assert_same(tmp_path / "same", whole)
    assert tribayes("fit", "--run", tmp_path / "other", "--seed", 1, *OPTIONS).code == 0
    assert (tmp_path / "other" / "final.safetensors").read_bytes() != (whole / "final.safetensors").read_bytes()
    assert json.loads((tmp_path / "other" / "config.json").read_text())["seed"] == 1
