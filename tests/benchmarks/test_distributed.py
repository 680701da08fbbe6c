"""The benchmark of several processes goes its way in a group of one, and comes to the page. No time is judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks import command, distributed
from benchmarks.performance.document import document
from benchmarks.racing import FEWEST_ROUNDS, plain_candidate, race
from tribayes.distributed import processes

pytestmark = pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="torch was built without gloo")


def test_all_arms_step_under_ddp_and_are_written(tmp_path: Path) -> None:
    words = ["--device", "cpu", "--quick", "--into", str(tmp_path)]
    arguments = command.parsed(command.parser(""), [*words, "--threads", str(torch.get_num_threads())])
    torch.distributed.init_process_group("gloo", f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        row = distributed._row(arguments, "lenet-100", processes())
    finally:
        torch.distributed.destroy_process_group()
    assert [one["name"] for one in row["timings"]] == list(distributed.ARMS)
    assert row["timings"][0]["ratio"] == (1.0, 1.0, 1.0)
    command.keep("distributed", {"processes": 2, "networks": [row]}, arguments)
    stored = json.loads((tmp_path / "distributed-cpu.json").read_text())
    assert stored["figures"]["networks"][0]["random_weights"] == 106_680
    page = document(tmp_path)
    assert "**LeNet-100**, batch 4, shared by 2 processes, 106,680 random weights." in page
    assert "| ours, same draw | " in page


def test_processes_agree_how_often_to_step_and_when_to_stop() -> None:
    """Were one to step once more than another, both would wait for ever."""
    asked: list[int] = []

    def agree(number: int) -> int:
        asked.append(int(number))
        return 3 if len(asked) == 1 else asked[-1]

    steps: list[int] = []
    (timing,) = race(
        [plain_candidate("step", lambda: steps.append(1))], torch.device("cpu"), 0.0, "step", {"cpu": 0.0}, agree
    )
    assert timing.turns == FEWEST_ROUNDS
    assert len(steps) == 1 + 1 + 3 * FEWEST_ROUNDS  # to warm up, to see how long it takes, and as was agreed
    assert asked[1:] == [1] * FEWEST_ROUNDS + [0]
