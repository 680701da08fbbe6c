"""What is read as what: separators, decimal commas, blanks, dates, and numbers of many digits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.own.cases import rows_of, write_csv
from tribayes.own import table_file
from tribayes.own.columns import CATEGORY, NUMBER, kind_of, numbers_of, words_of
from tribayes.own.csv_file import check_csv
from tribayes.own.schema import Schema
from tribayes.own.target import Target, class_indices, target_values, task_of

pandas = pytest.importorskip("pandas", reason="tables are read with pandas")


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators_are_found(separator: str, tmp_path: Path) -> None:
    data = write_csv(tmp_path / "table.csv", rows_of(5), separator)
    assert check_csv(data)[0] == separator
    assert list(table_file.read_table(data).columns) == list(rows_of(1)[0])


def test_a_separator_in_a_quoted_name_separates_nothing(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text('"a; b; c",d\n1,2\n')
    assert check_csv(tmp_path / "table.csv") == (",", ["a; b; c", "d"])


def test_a_mark_in_front_and_quotes_are_read(tmp_path: Path) -> None:
    data = tmp_path / "table.csv"
    data.write_bytes('\ufeffname,"a, b"\nx,"1\n2"\n\ny,3\n'.encode())
    table = table_file.read_table(data)
    assert list(table.columns) == ["name", "a, b"]
    assert table["a, b"].tolist() == ["1\n2", "3"]


def test_blanks_after_a_separator_belong_to_no_word(tmp_path: Path) -> None:
    data = tmp_path / "table.csv"
    data.write_text('name, "a, b", c\nx, ?, 1\n"y", z, 2\n')
    table = table_file.read_table(data)
    assert list(table.columns) == ["name", "a, b", "c"]
    assert table["a, b"].isna().tolist() == [True, False]
    assert table["a, b"][1] == "z"
    assert table["c"].tolist() == [1, 2]


def test_a_comma_is_the_decimal_sign_where_it_separates_nothing(tmp_path: Path) -> None:
    data = tmp_path / "table.csv"
    data.write_text("a;b;c;d;e\n1,5;x, y;1.5;2;1,0\n-,25;z;2.5;;bad\n1e-3;;3;4;1,1\n2,0;q;;5;1,2\n;q;;;1,3\n")
    table = table_file.read_table(data)
    assert numbers_of("a", table["a"])[:4].tolist() == [1.5, -0.25, 1e-3, 2.0]
    assert table["a"].isna().tolist() == [False, False, False, False, True]
    assert table["b"].tolist()[:2] == ["x, y", "z"]
    assert table["c"].tolist()[:2] == [1.5, 2.5]
    with pytest.raises(ValueError, match=r"column 'e': 'bad'.*must hold numbers alone.*does not in row 2"):
        kind_of("e", table["e"])
    data.write_text('a,b\n"1,5",1\n"2,5",2\n')
    assert table_file.read_table(data)["a"].tolist() == ["1,5", "2,5"]  # there it may be one of thousands


def test_what_is_known_for_words_is_read_as_it_is_written(tmp_path: Path) -> None:
    data = tmp_path / "table.csv"
    data.write_text("code;size;flag\n001;1,5;TRUE\n?;2;\n")
    table = table_file.read_table(data, words=["code", "flag", "absent"])
    assert words_of(table["code"]) == ["001", None]
    assert words_of(table["flag"]) == ["TRUE", None]
    assert numbers_of("size", table["size"]).tolist() == [1.5, 2.0]
    data.write_text("code;size\n1,5;3\n")
    assert words_of(table_file.read_table(data, words=["code"])["code"]) == ["1,5"]


def test_columns_of_parquet_that_are_called_by_numbers(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="Parquet is read with pyarrow")
    pandas.DataFrame([[1.0, 2.0], [3.0, 4.0]]).to_parquet(tmp_path / "table.parquet")
    assert list(table_file.read_table(tmp_path / "table.parquet").columns) == ["0", "1"]


@pytest.mark.parametrize("categories", [[1, 2, 3], [1.0, 2.0, 3.0], ["1", "2", "3"]])
def test_declared_categories_are_words_though_they_are_numbers(categories: list[object]) -> None:
    """The same words that a CSV file has for them; numbers put an order and distances on what has none."""
    values = pandas.Series(pandas.Categorical([*categories, None] * 10, categories=categories))
    assert kind_of("ward", values) == (CATEGORY, "")
    assert words_of(values)[:4] == ["1", "2", "3", None]
    known = values.dropna()
    assert task_of("ward", known, None) == "classification"
    assert class_indices("ward", known)[1] == ("1", "2", "3")


KINDS = {
    "days": ([f"2020-01-{1 + n % 28:02d}" for n in range(90)], "dates are neither numbers nor categories"),
    "times": ([f"3.1.2020 10:{n % 60:02d}" for n in range(90)], "dates are neither numbers nor categories"),
    "thousands": ([f"1,{n:03d}" for n in range(90)], "look like numbers, but not as they are read, such as '1,000'"),
    "percent": ([f"{n} %" for n in range(90)], "look like numbers, but not as they are read, such as '0 %'"),
    "names": ([f"n{n}" for n in range(90)], "nearly every row has a word of its own"),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_column_that_is_left_out_is_said_to_be_what_it_is(name: str) -> None:
    cells, words = KINDS[name]
    kind, reason = kind_of(name, pandas.Series(cells))
    assert kind is None
    assert words in reason


def test_dates_of_python_are_dates() -> None:
    days = pandas.Series(pandas.date_range("2020", periods=9).date)
    assert "dates are neither" in kind_of("day", days)[1]


@pytest.mark.parametrize("make", ["date_range", "timedelta_range"])
def test_dates_and_spans_of_time_are_no_numbers(make: str) -> None:
    """Parquet declares them, and pandas makes counts of nanoseconds of them."""
    values = pandas.Series(getattr(pandas, make)(0, periods=9))
    assert numbers_of("when", values.where(values.isna())).isnan().all()
    with pytest.raises(ValueError, match=r"column 'when': .* must hold numbers alone, but does not in row 1, nor in 8"):
        numbers_of("when", values)
    with pytest.raises(ValueError, match=r"1; dates are neither numbers nor categories: make e\.g\."):
        class_indices("when", values)
    with pytest.raises(ValueError, match="which 'when' is not; dates are neither numbers nor categories"):
        target_values("when", values)


@pytest.mark.parametrize("kind", ["int64", "uint64", "object"])
def test_whole_numbers_of_many_digits_are_told_apart(kind: str) -> None:
    """Beyond 2⁵³ they are one number as float64."""
    numbers = pandas.Series([2**53 + number % 2 for number in range(20)], dtype=kind)
    assert kind_of("id", numbers)[0] == NUMBER
    assert task_of("id", numbers, None) == "classification"
    indices, classes = class_indices("id", numbers)
    assert classes == ("9007199254740992", "9007199254740993")
    assert indices.tolist() == [0, 1] * 10
    assert task_of("id", pandas.Series([2**60 + number for number in range(50)]), None) == "regression"


def test_a_number_is_the_same_word_whether_or_not_others_are_missing() -> None:
    whole, gaps = pandas.Series([3, 10**15]), pandas.Series([3.0, 10.0**15, None])
    assert words_of(whole) == words_of(gaps)[:2] == ["3", "1000000000000000"]
    assert words_of(gaps)[2] is None
    assert words_of(pandas.Series([0.1, 0.1 + 2**-55 * 2, 1.5])) == ["0.1", "0.10000000000000006", "1.5"]


def test_an_empty_line_is_no_row_unless_it_may_be_one(tmp_path: Path) -> None:
    data = tmp_path / "table.csv"
    data.write_text("a,b\n1,2\n\n3,4\n\n")
    assert len(table_file.read_table(data)) == 2
    data.write_text('a\n1\n""\n3\n\n')
    assert table_file.read_table(data, columns=1)["a"].isna().tolist() == [False, True, False]
    data.write_text("a\n1\n\n3\n")
    with pytest.raises(ValueError, match=r'have no empty line between its rows of one cell, but line 3 is; write ""'):
        check_csv(data, columns=1)


DOUBTS = {
    "most are numbers": ([*map(str, range(60)), *["unknown"] * 40], "most of its cells are numbers, but not 'unknown'"),
    "shares": ([f"{n % 9} %" for n in range(90)], "look like numbers, but not as they are read, such as '0 %'"),
    "grades": (["a", "b", "1"] * 30, ""),
}


@pytest.mark.parametrize("name", DOUBTS)
def test_words_that_may_be_meant_as_numbers_are_taken_for_words_with_a_remark(name: str) -> None:
    cells, words = DOUBTS[name]
    kind, doubt = kind_of(name, pandas.Series(cells * 2))
    assert kind == CATEGORY
    assert words in doubt
    assert bool(words) == bool(doubt)
    said = Schema.learned(pandas.DataFrame({name: cells * 2}), torch.arange(10))[1]
    assert said == [
        f"learned from words: {name!r}",
        *([f"column {name!r} is taken for words; {doubt}"] if doubt else []),
    ]


def test_what_a_target_is_learned_as_is_said() -> None:
    assert Target("y").words == "'y' is learned as a number"
    assert Target("y", ("0", "1")).words == "'y' is learned as 2 classes: '0', '1'"
    grades = tuple(map(str, range(20)))
    assert Target("y", grades).words.startswith("'y' is learned as 20 classes: '0', '1', '2'")
    assert Target("y", grades).words.endswith("'11', …; --task regression learns a number")


def test_blanks_around_a_word_are_no_part_of_it() -> None:
    assert words_of(pandas.Series(["yes", "yes ", " yes", None])) == ["yes", "yes", "yes", None]
