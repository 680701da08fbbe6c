"""A CSV file, gone through line by line before anything is made of it: is it text, is it a table, what separates it?

pandas would fill short rows with nothing and rename columns of equal names; here both are errors that name the line.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

from tribayes._errors import refusal

ENCODING = "utf-8-sig"  # UTF-8, with or without the mark that spreadsheets put in front
SEPARATORS = (",", ";", "\t", "|")
MOST_COLUMNS = 10_000


def check_csv(path: Path, columns: int = 2) -> tuple[str, list[str]]:
    """What separates the columns, and their names; an error where rows differ in length, or it is no text.

    `columns` are the fewest that will do.

    >>> _ = (folder / "heights.csv").write_text("name;height\\nAda;1.7\\n")
    >>> check_csv(folder / "heights.csv")
    (';', ['name', 'height'])
    """
    try:
        with path.open(encoding=ENCODING, newline="") as file:
            separator = _separator(file.readline(1_000_000))
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
    """The one that the header has most of; a comma where it has none."""
    return max(SEPARATORS, key=header.count)


def _reader(path: Path, file: Iterable[str], separator: str) -> Iterator[list[str]]:
    return csv.reader(_text_alone(path, file), delimiter=separator, strict=True, skipinitialspace=True)


def _text_alone(path: Path, lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if "\0" in line:
            raise refusal("DATA", str(path), f"be text, but line {number} holds a zero byte", "pass a CSV table")
        yield line


def _checked(path: Path, reader: Iterator[list[str]], columns: int) -> tuple[list[str], int]:
    """The header's names, and how many rows there are, all of the same length."""
    header = [name.strip() for name in next(reader, [])]
    if not any(header):
        raise refusal("DATA", str(path), "begin with a line of column names", "it is empty, or its first line is")
    check_names(path, header, columns)
    rows, blank = 0, 0
    for row in reader:
        if row and len(row) != len(header):  # an empty line is no row
            line = reader.line_num  # type: ignore[attr-defined]  # csv's readers have it, their type is an iterator
            requirement = f"have {len(header)} cells in every row, as in its header, but line {line} has {len(row)}"
            raise refusal("DATA", str(path), requirement, "correct that line, or quote cells that hold separators")
        if row and blank and len(header) == 1:
            requirement = f"have no empty line between its rows of one cell, but line {blank} is"
            raise refusal("DATA", str(path), requirement, 'write "" for a value that is missing')
        blank = blank or (0 if row else reader.line_num)  # type: ignore[attr-defined]
        rows += bool(row)
    return header, rows


def check_names(path: Path, names: list[str], columns: int = 2) -> None:
    """Refuse a table in which two columns have one name, or which has too few or too many."""
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise refusal("DATA", str(path), f"have each column name once, but {twice[0]!r} is there twice", "rename one")
    if not columns <= len(names) <= MOST_COLUMNS:
        requirement = f"have {columns} to {MOST_COLUMNS:,} columns, but it has {len(names):,}"
        raise refusal("DATA", str(path), requirement, "separate columns by comma, semicolon, tab or |")


def _byte(error: UnicodeDecodeError) -> str:
    return f"the byte 0x{error.object[error.start]:02x}, which is none"
