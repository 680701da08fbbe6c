"""The benchmark of large networks goes its whole way with a miniature, and comes to the page. No time is judged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import large
from benchmarks.large import ARMS
from benchmarks.large_networks import MINIATURES, TASKS
from benchmarks.performance.document import document

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
    page = document(tmp_path)
    assert "**ViT, a miniature**, batch 2," in page
    assert page.count("| ours, DDP | ") == 1
    assert f"\nUnder DDP {row['ddp_ratio']:.3f} × the plain network under it.\n" in page  # and no peak on a CPU


def test_time_and_memory_are_judged_by_their_targets(tmp_path: Path) -> None:
    timings = [{"name": name, "how": "graph", "seconds": [1.0] * 3, "ratio": [1.04] * 3} for name in ARMS]
    row = {"name": "vit-b-16", "title": "ViT", "batch": 64, "weights": 5, "random_weights": 4, "timings": timings}
    row |= {"ddp_ratio": 1.02, "peaks": {"deterministic": 2**30, "ours": 2**30 * 1.2}}
    machine = {"kind": "h200", "name": "H200", "cuda": "13", "torch": "2", "python": "3", "tribayes": "0.2.0"}
    machine |= {"copy_bytes_per_second": 1e12, "flops_per_second": 1e14}
    stored = {"benchmark": "large", "quick": False, "machine": machine, "figures": {"networks": [row]}}
    (tmp_path / "large-h200.json").write_text(json.dumps(stored))
    page = document(tmp_path)
    assert "| H200 | training step, ViT-B/16, 224×224 | ≤ 1.05 × deterministic | 1.04 × deterministic | met |" in page
    line = "| H200 | peak of a step, ViT-B/16, 224×224 | ≤ 1.1 × deterministic | 1.2 × deterministic | **not met** |"
    assert line in page
    assert "| H200 | training step, GPT-2 124M, 1,024 tokens | ≤ 1.05 × deterministic | – | not measured |" in page
    assert "Under DDP 1.020 × the plain network under it. Peak: 1,229 MiB, 1.200 × the plain 1,024." in page


def test_on_a_cpu_they_run_only_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    large.main(["--device", "cpu", "--into", str(tmp_path)])
    assert capsys.readouterr().out == "left out on a CPU unless they are named: --network gpt-2\n\n"
    assert not list(tmp_path.iterdir())


def test_the_networks_are_those_of_the_papers_in_size() -> None:
    vision = next(task for task in TASKS if task.name == "vit-b-16")
    with torch.device("meta"):
        assert sum(value.numel() for value in vision.build().parameters()) == 86_567_656
    assert [task.name for task in MINIATURES] == [task.name for task in TASKS]
