"""The benchmark of large networks goes its whole way with a miniature. No time is judged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.large_networks import MINIATURES, TASKS

pytestmark = pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="torch was built without gloo")


def test_a_quick_run_leaves_time_and_the_weights_that_were_drawn(tmp_path: Path) -> None:
    words = ["--device", "cpu", "--threads", "1", "--quick", "--network", "vit-b-16", "--into", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "benchmarks.large", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((tmp_path / "large-cpu.json").read_text())["figures"]["networks"]
    assert [one["name"] for one in row["timings"]] == ["deterministic", "ours", "deterministic, DDP", "ours, DDP"]
    norms = 2 * (2 * 2 + 1) * 32  # scales and shifts of five LayerNorms
    assert row["weights"] - row["random_weights"] == norms
    assert row["ddp_ratio"] > 0


def test_the_networks_are_those_of_the_papers_in_size() -> None:
    vision = next(task for task in TASKS if task.name == "vit-b-16")
    with torch.device("meta"):
        assert sum(value.numel() for value in vision.build().parameters()) == 86_567_656
    assert [task.name for task in MINIATURES] == [task.name for task in TASKS]
