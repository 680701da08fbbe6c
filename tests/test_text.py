"""Numbers and tables as text."""

import math

import pytest

from pages.markdown import markdown_table
from tribayes._text import figures, format_table, level_text, minus, number, percent


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (60_000, "60,000"),
        (-1_000, "-1,000"),
        (0.0, "0.000"),
        (0.05, "0.050"),
        (-0.5, "-0.500"),
        (1234.5, "1,234.500"),
        (0.001, "0.001"),
        (0.0009, "9.0e-04"),
        (-1e-12, "-1.0e-12"),
        (math.nan, "nan"),
        (math.inf, "inf"),
    ],
)
def test_a_number_has_the_digits_it_needs(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [(0.00012, 2, "0.00"), (0.00012, 4, "0.0001"), (1234.567, 1, "1,234.6"), (7, 2, "7"), (-0.25, 0, "-0")],
)
def test_decimals_can_be_told(value: float, decimals: int, text: str) -> None:
    assert number(value, decimals) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (23_307.4, "23,310"),
        (-1_234_567.0, "-1,235,000"),
        (9_999.6, "10,000"),
        (2_331.2, "2331"),
        (8.13249, "8.132"),
        (0.8, "0.8"),
        (0.0000123456, "1.235e-05"),
        (2.5e15, "2.5e+15"),
        (math.inf, "inf"),
        (math.nan, "nan"),
    ],
)
def test_a_size_is_written_without_powers_of_ten(value: float, text: str) -> None:
    assert figures(value) == text


def test_shares_and_levels_are_percentages() -> None:
    assert [percent(0.125), percent(0.0213, 1), percent(1.0, 2), percent(0.0)] == ["12 %", "2.1 %", "100.00 %", "0 %"]
    assert [level_text(level) for level in (0.5, 0.95, 0.999, 0.99999)] == ["50 %", "95 %", "99.9 %", "99.999 %"]


def test_the_minus_sign_of_a_page() -> None:
    assert minus("-0.5 to -0.25") == "−0.5 to −0.25"


def test_columns_are_aligned_numbers_to_the_right() -> None:
    table = format_table(["name", "K", "tau"], [["conv.weight", 1200, 0.5], ["b", 3, None]])
    assert table.splitlines() == [
        "name             K    tau",
        "-----------  -----  -----",
        "conv.weight  1,200  0.500",
        "b                3      -",
    ]


def test_a_column_of_mixed_cells_stands_to_the_left() -> None:
    table = format_table(["what", "value"], [["share", "5 %"], ["count", 1200], ["flag", True]])
    assert table.splitlines() == ["what   value", "-----  -----", "share  5 %", "count  1,200", "flag   True"]


def test_a_table_without_rows_is_its_header() -> None:
    assert format_table(["a", "bc"], []) == "a  bc\n-  --"


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="longer"):
        format_table(["a"], [["x", "y"]])
    with pytest.raises(ValueError, match=r"a row of the table \['a', 'b'\] has another number of cells"):
        markdown_table(["a", "b"], [["x", "y"], ["x"]])


def test_markdown() -> None:
    assert markdown_table(["a", "b"], [["x", "y"]]) == "| a | b |\n| --- | --- |\n| x | y |\n"
    assert markdown_table(["a"], []) == "| a |\n| --- |\n"
