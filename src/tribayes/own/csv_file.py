"""A CSV file, gone through line by line before anything is made of it: is it text, is it a table, what separates it?

pandas would fill short rows with nothing and rename columns of equal names; here both are errors that name the line.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from tribayes._errors import refusal

ENCODING = "utf-8-sig"  # UTF-8, with or without the mark that spreadsheets put in front
SEPARATORS = (",", ";", "\t", "|")
MOST_COLUMNS = 10_000
MOST_LETTERS = 5_000_000  # of a line; csv itself bounds a cell
MOST_EMPTY = 100_000  # lines, one after the other


def check_csv(path: Path, columns: int = 2) -> tuple[str, list[str]]:
    """What separates the columns, and their names; an error where rows differ in length, or it is no text.

    `columns` are the fewest that will do.

    >>> _ = (folder / "heights.csv").write_text("name;height\\nAda;1.7\\n")
    >>> check_csv(folder / "heights.csv")
    (';', ['name', 'height'])
    """
    try:
        with path.open(encoding=ENCODING, newline="") as file:
            separator = _separator(file.readline(100_000))
            file.seek(0)
            header, rows = _checked(path, _reader(path, file, separator), columns)
    except UnicodeDecodeError as error:
        remedy = "save it as UTF-8 (in a spreadsheet: CSV UTF-8)"
        raise refusal("DATA", str(path), f"be text in UTF-8, but it holds {_byte(error)}", remedy) from error
    except csv.Error as error:
        raise refusal("DATA", str(path), f"be a CSV table ({error})", "close every quote that is opened") from error
    if not rows:
        raise refusal("DATA", str(path), "have rows below its header", "it is empty but for names of columns")
    return separator, header


def _separator(header: str) -> str:
    """The one that parts the header into most names, of which quoted ones may hold others; a comma where none does."""
    return max(SEPARATORS, key=lambda each: len(next(csv.reader([header], delimiter=each), [])))


def _reader(path: Path, file: TextIO, separator: str) -> Any:  # a type that csv does not show: rows, and `line_num`
    return csv.reader(_text_alone(path, file), delimiter=separator, strict=True, skipinitialspace=True)


def _text_alone(path: Path, file: TextIO) -> Iterator[str]:
    """Its lines, one in memory at a time."""
    for number, line in enumerate(iter(lambda: file.readline(MOST_LETTERS + 1), ""), 1):
        if len(line) > MOST_LETTERS:
            requirement = f"have at most {MOST_LETTERS:,} letters in a line, but line {number} has more"
            raise refusal("DATA", str(path), requirement, "pass a CSV table, a row to a line")
        if "\0" in line:
            raise refusal("DATA", str(path), f"be text, but line {number} holds a zero byte", "pass a CSV table")
        yield line


def _checked(path: Path, reader: Any, columns: int) -> tuple[list[str], int]:
    """The header's names, and how many rows there are, all of the same length."""
    header = [name.strip() for name in next(reader, [])]
    if not any(header):
        raise refusal("DATA", str(path), "begin with a line of column names", "it is empty, or its first line is")
    check_names(path, header, columns)
    rows = empty = blank = 0
    for row in reader:
        empty = 0 if row else empty + 1
        if empty > MOST_EMPTY:
            requirement = f"have rows, but after {rows:,} of them come more than {MOST_EMPTY:,} empty lines"
            raise refusal("DATA", str(path), requirement, "take the empty lines away")
        if row and len(row) != len(header):  # an empty line is no row
            line = reader.line_num
            requirement = f"have {len(header)} cells in every row, as in its header, but line {line} has {len(row)}"
            remedy = "correct that line, or quote cells that hold separators"
            above = "take away what stands above the names of columns, such as a title, or "
            raise refusal("DATA", str(path), requirement, remedy if rows else above + remedy)
        if row and blank and len(header) == 1:
            requirement = f"have no empty line between its rows of one cell, but line {blank} is"
            raise refusal("DATA", str(path), requirement, 'write "" for a value that is missing')
        blank = blank or (0 if row else reader.line_num)
        rows += bool(row)
    return header, rows


def check_names(path: Path, names: list[str], columns: int = 2) -> None:
    """Refuse a table in which two columns have one name, or which has too few or too many."""
    if not columns <= len(names) <= MOST_COLUMNS:
        requirement = f"have {columns} to {MOST_COLUMNS:,} columns, but it has {len(names):,}"
        raise refusal(
            "DATA", str(path), requirement, "separate columns by comma, semicolon, tab or |, their names first"
        )
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice == [""]:
        requirement = f"have a name for each column but one at most, but {names.count('')} have none"
        raise refusal("DATA", str(path), requirement, "name these columns, or take them away")
    if twice:
        raise refusal("DATA", str(path), f"have each column name once, but {twice[-1]!r} is there twice", "rename one")


def _byte(error: UnicodeDecodeError) -> str:
    return f"the byte 0x{error.object[error.start]:02x}, which is none"
