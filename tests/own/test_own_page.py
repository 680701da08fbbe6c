"""docs/own-data.md: its commands run as they are written, but for how long they train."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.own.cases import QUICK, rows_of, write_csv
from tests.recipes.small import tribayes

pytest.importorskip("pandas", reason="tables are read with pandas")
PAGE = Path(__file__).parents[2] / "docs" / "own-data.md"


def test_the_commands_about_a_table_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, seed in (("houses.csv", 0), ("new.csv", 1)):
        write_csv(tmp_path / name, rows_of(100, seed))
    block = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0]
    lines = [line.partition("#")[0].split()[1:] for line in block.splitlines()]
    assert [words[0] for words in lines] == ["fit", "evaluate", "predict", "report", "compare"]
    for seed in (0, 1):
        assert tribayes(*lines[0], *QUICK, "--seed", seed).code == 0
        assert tribayes("evaluate", f"runs/houses-seed{seed}", "--samples", 5).code == 0
    for words in lines[2:]:
        answer = tribayes(*words)
        assert (answer.code, answer.err) == (0, "")
    assert Path("runs/houses-seed0/predictions/new.csv").exists()
