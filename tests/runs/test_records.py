"""Records: how often, how they are read, and how a resumed run takes back what it will write again."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.recipes.small import names
from tribayes.runs.records import Record, add_record, cut_back, interval_of, is_due, read_records

RECORD = Record(10, 2.5, 0.1, 2.25, 0.2, 0.5, 0.02, {"fc.weight": 0.05}, {"fc.weight": -0.04}, 1.5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Records of a run of 25 iterations, complete."""
    path = tmp_path / "metrics.jsonl"
    for iteration in (10, 20, 25):
        add_record(path, replace(RECORD, iteration=iteration))
    return path


def iterations(path: Path) -> list[int]:
    return [record.iteration for record in read_records(path)]


@pytest.mark.parametrize(
    ("total", "interval"), [(1, 10), (25, 10), (399, 10), (400, 20), (2000, 100), (40_000, 1000), (10**6, 1000)]
)
def test_interval(total: int, interval: int) -> None:
    assert interval_of(total) == interval
    assert 1000 % interval == 0  # a record needs the losses of one window only


def test_the_last_iteration_has_a_record() -> None:
    assert [at for at in range(1, 26) if is_due(at, 25)] == [10, 20, 25]
    assert [at for at in range(1, 4) if is_due(at, 3)] == [3]


def test_a_record_comes_back(path: Path) -> None:
    assert read_records(path)[0] == RECORD


@pytest.mark.parametrize(("iteration", "kept"), [(0, []), (9, []), (10, [10]), (24, [10, 20]), (25, [10, 20, 25])])
def test_cut_back(path: Path, iteration: int, kept: list[int]) -> None:
    before = path.read_text().splitlines(keepends=True)
    cut_back(path, iteration, 25)
    assert iterations(path) == kept
    assert path.read_text() == "".join(before[: len(kept)])
    assert names(path.parent) == ["metrics.jsonl"]


def test_a_line_cut_off_by_a_crash_is_taken_back(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ValueError, match=r"metrics.jsonl is damaged in line 3; resume its run"):
        read_records(path)
    cut_back(path, 20, 25)
    assert iterations(path) == [10, 20]


def test_a_run_without_records_yet_gets_an_empty_file(tmp_path: Path) -> None:
    cut_back(tmp_path / "metrics.jsonl", 7, 25)
    assert read_records(tmp_path / "metrics.jsonl") == []


def test_records_that_are_missing_are_missed(path: Path) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + lines[2])
    with pytest.raises(ValueError, match=r"its record of iteration 20 is missing or not expected, while"):
        cut_back(path, 25, 25)
    path.unlink()
    with pytest.raises(ValueError, match=r"its record of iteration 10 is missing"):
        cut_back(path, 25, 25)
    path.write_text("".join([lines[0], lines[0], *lines[1:]]))
    with pytest.raises(ValueError, match=r"metrics.jsonl is damaged"):
        cut_back(path, 20, 25)


CHANGES: dict[str, Callable[[str], str]] = {
    "a number": lambda line: line.replace('"loss": ', '"loss": 1'),
    "a digit": lambda line: line.replace('"nll": 2.25', '"nll": 2.24'),
    "a name": lambda line: line.replace('"fc.weight"', '"fc.bias"'),
    "a missing key": lambda line: re.sub(r'"nll_std": [^,]*, ', "", line),
    "a key twice": lambda line: line.replace("{", '{"loss": 0.0, ', 1),
    "its checksum": lambda line: line.replace('"sha256": "', '"sha256": "0'),
    "not an object": lambda line: f"[{line}]",
    "nested too deep": lambda _: "[" * 100_000,
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_changed_line_is_noticed(path: Path, kind: str) -> None:
    """Not only one that is torn: a number that was changed would show in the report as a measured one."""
    lines = path.read_text().splitlines()
    lines[1] = CHANGES[kind](lines[1])
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=r"metrics.jsonl is damaged in line 2; resume its run"):
        read_records(path)
    with pytest.raises(ValueError, match=r"metrics.jsonl is damaged: its record of iteration 20 is missing"):
        cut_back(path, 25, 25)


@pytest.mark.parametrize(("order", "line"), [((0, 2), 2), ((1, 0, 2), 2), ((0, 0, 1, 2), 2), ((0, 1, 1, 2), 3)])
def test_lines_that_are_missing_or_out_of_order_are_noticed(path: Path, order: tuple[int, ...], line: int) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[number] for number in order))
    with pytest.raises(ValueError, match=f"is damaged in line {line}; "):
        read_records(path)


def test_lines_of_before_the_checksum_are_read(path: Path) -> None:
    expected = read_records(path)
    path.write_text(re.sub(r', "sha256": "[^"]*"', "", path.read_text()))
    assert "sha256" not in path.read_text()
    assert read_records(path) == expected


@pytest.mark.parametrize("value", ["1" + 400 * "0", "-1e999", "NaN", "true"])
def test_a_number_that_no_float_holds_is_damage(path: Path, value: str) -> None:
    line = re.sub(r', "sha256": "[^"]*"', "", path.read_text().splitlines()[0])  # as of before the checksum
    path.write_text(line.replace('"loss": 2.5', f'"loss": {value}') + "\n")
    with pytest.raises(ValueError, match=r"metrics\.jsonl is damaged in line 1; resume its run"):
        read_records(path)


def test_of_a_line_without_end_a_part_is_read(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(b'{"iteration": ' + b"1" * 5_000_000)
    with pytest.raises(ValueError, match=r"metrics\.jsonl is damaged in line 1; resume its run, or start anew"):
        read_records(tmp_path / "metrics.jsonl")
    cut_back(tmp_path / "metrics.jsonl", 0, 100)
    assert (tmp_path / "metrics.jsonl").read_bytes() == b""
