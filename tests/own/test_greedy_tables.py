"""Tables that would take all memory or all time are refused before they do."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tribayes.own.csv_file import check_csv
from tribayes.own.table_file import read_table


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a,b\n1," + "x" * 6_000_000, "have at most 5,000,000 letters in a line, but line 2 has more"),
        ("a,b\n1,2\n" + "\n" * 100_002, "have rows, but after 1 of them come more than 100,000 empty lines"),
        (",".join(["a"] * 300_000) + "\n", "have 2 to 10,000 columns, but it has 300,000"),
    ],
)
def test_text_without_end_is_refused(content: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(content)
    started = time.process_time()
    with pytest.raises(ValueError, match=f"must {words}"):
        check_csv(tmp_path / "t.csv")
    assert time.process_time() - started < 5  # it is done in a tenth of one; names were compared each with each


def test_columns_of_one_name_are_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,a\n1,2,3\n")
    with pytest.raises(ValueError, match="must have each column name once, but 'a' is there twice; rename one"):
        check_csv(tmp_path / "t.csv")


def test_a_small_file_that_is_large_once_it_is_read_is_refused(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"word": pyarrow.repeat("x" * 10_000, 60_000), "number": pyarrow.repeat(1, 60_000)})
    parquet.write_table(table, tmp_path / "t.parquet", compression="zstd")
    assert (tmp_path / "t.parquet").stat().st_size < 1_000_000
    with pytest.raises(ValueError, match="must have at most 500 MB, but it has 600; take a part of its rows"):
        read_table(tmp_path / "t.parquet")
