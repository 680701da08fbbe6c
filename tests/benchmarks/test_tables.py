"""The benchmark of tables: figures by hand, tuning without test rows, the page from the file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.tables import __main__ as command
from benchmarks.tables import arms
from benchmarks.tables.answers import Classes, Nothing, Values
from benchmarks.tables.cases import SPLITS, TABLES, Rows
from benchmarks.tables.document import document
from benchmarks.tables.results import Results


def rows(count: int, classes: bool = False) -> Rows:
    random = np.random.RandomState(0)
    x = random.randn(count, 3)
    y = x[:, 0] + random.randn(count)
    return Rows(x, (y > 0).astype(int) if classes else y)


def test_figures_of_values() -> None:
    said = Values(np.array([1.0, 3.0]), np.array([[0.0, 2.0], [2.0, 5.0]]), np.array([-1.0, -2.0]))
    found = said.figures(np.array([1.0, 6.0]))
    assert found == {"error": math.sqrt(4.5), "nll": 1.5, "coverage": 0.5, "width": 2.5}
    assert Values(said.mean, said.interval).figures(np.array([1.0, 6.0]))["nll"] is None


def test_figures_of_classes() -> None:
    shares = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]])
    sets = np.array([[True, True, False], [False, True, False]])
    found = Classes(shares, sets).figures(np.array([1, 1]))
    assert found == {"error": 0.5, "nll": (math.log(4) + math.log(2)) / 2, "coverage": 1.0, "width": 1.5}
    assert Classes(shares).figures(np.array([1, 1]))["coverage"] is None


def test_the_better_setting_on_held_out_rows_is_taken() -> None:
    table, asked = rows(50), []

    class Constant:
        def __init__(self, value: float) -> None:
            self.value = value

        def fit(self, inputs: Any, targets: Any) -> Constant:
            asked.append((len(inputs), len(targets)))
            return self

        def predict(self, inputs: Any) -> Any:
            return np.full(len(inputs), self.value)

    assert arms.best([9.0, 0.0, 5.0], Constant, arms._squares, table, 0) == 0.0
    assert asked == [(40, 40)] * 3


def test_a_fifth_is_parted_and_nothing_is_lost() -> None:
    part, others = rows(50).parted(3)
    assert (len(part), len(others)) == (10, 40)
    assert sorted([*part.targets, *others.targets]) == sorted(rows(50).targets)


@pytest.mark.parametrize("classes", [False, True])
def test_ours_and_boosting_answer_without_the_peers(monkeypatch: pytest.MonkeyPatch, classes: bool) -> None:
    monkeypatch.setattr(arms, "installed", lambda package: package == "")
    table = rows(150, classes)
    ask = arms.classification if classes else arms.regression
    found = ask(table, table[:20], 0, steps=20, samples=2)
    expected = {arms.OURS, arms.BOOSTING} if classes else {arms.OURS, arms.POSTERIOR, arms.QUANTILES}
    assert set(found) == expected
    for answer, _ in found.values():
        assert all(value is None or math.isfinite(value) for value in answer.figures(table.targets[:20]).values())


def entry(shift: float, classes: bool) -> dict[str, Any]:
    """A split, made up."""
    figures = {"error": 0.1 + shift, "nll": 1.0 + shift, "coverage": 0.95 - shift, "width": 2.0}
    silent = figures | {"nll": None}
    said: dict[str, Any] = {arms.OURS: figures | {"kl_weight": 1.0}, arms.MAPIE: silent}
    if classes:
        said[arms.BOOSTING] = figures | {"error": 0.01, "coverage": None, "width": None}
    return {"rows": {"learned": 100, "tested": 25}, "arms": said, "seconds": 60.0}


def test_what_is_stored_is_kept_and_written(tmp_path: Path) -> None:
    results = Results(tmp_path / "tables.json")
    for split in range(SPLITS):
        for name, table in TABLES.items():
            results.add(name, split, entry(0.01 * split, table.classes))
    again = Results(results.path)
    assert again.has("wine", SPLITS - 1)
    assert not again.has("wine", SPLITS)
    page = document(again)
    assert "Not complete" not in page
    assert "| wine | 93.0 ± 0.7 % | " in page
    assert f"| {arms.MAPIE} | 0.12 ± 0.0071 | – | 93.0 ± 0.7 % | 2 ± 0 |" in page
    assert f"| {arms.BOOSTING} | {arms.OURS}, {arms.BOOSTING} |" in page  # least error; and least NLL, of two equals
    command.main(["--page", "--results", str(results.path), "--into", str(tmp_path / "page.md")])
    assert (tmp_path / "page.md").read_text() == page


def test_an_arm_that_could_not_learn_a_split_is_counted_and_wins_nothing(tmp_path: Path) -> None:
    results = Results(tmp_path / "tables.json")
    for split in range(SPLITS):
        made = entry(0.01 * split, classes=True)
        made["arms"][arms.NGBOOST] = {"error": 0.0, "nll": 0.0, "coverage": None, "width": None}
        if split == 2:
            made["arms"][arms.NGBOOST] = Nothing().figures(None)
        results.add("wine", split, made)
    page = document(results)
    assert f"| {arms.NGBOOST}, 4 of 5 splits | 0.0 ± 0.0 % | 0 ± 0 | – | – |" in page
    assert f"| {arms.BOOSTING} | {arms.OURS}, {arms.BOOSTING} |" in page


def test_a_smaller_mean_within_error_is_not_called_better(tmp_path: Path) -> None:
    results = Results(tmp_path / "tables.json")
    for split in range(SPLITS):
        made = entry(0.01 * split, classes=True)  # boosting errs less on every split
        made["arms"][arms.MAPIE]["error"] += (-0.2, 0.5, 0.1, 0.0, 0.2)[split]  # more on average, but not always
        made["arms"][arms.MAPIE]["nll"] = 3.0
        results.add("wine", split, made)
    page = document(results)
    assert "| worse 1, within error 1 | better 1, within error 1 |" in page


def test_the_page_says_what_was_not_run(tmp_path: Path) -> None:
    results = Results(tmp_path / "tables.json")
    results.add("wine", 0, entry(0.0, True))
    page = document(results)
    counts = "diabetes 0, concrete 0, energy 0, yacht 0, breast cancer 0, wine 1"
    assert f"**Not complete.** Of 5 splits were run: {counts}." in page
    assert "| wine | 95.0 % | " in page  # one split has no error
    assert "| – | – |" in page  # and no winner


def test_the_page_is_up_to_date() -> None:
    command.main(["--check"])
