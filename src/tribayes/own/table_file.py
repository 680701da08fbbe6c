"""A table from a file, CSV or Parquet, as a pandas DataFrame: size, names and form are looked at before it is read.

pandas rather than polars: most who have tables have it already, and the rest of the package takes its arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tribayes._errors import refusal
from tribayes.own.csv_file import ENCODING, check_csv, check_names

TEXT_ENDINGS, PARQUET_ENDINGS = (".csv", ".tsv"), (".parquet", ".pq")
TABLE_ENDINGS = TEXT_ENDINGS + PARQUET_ENDINGS
MOST_BYTES = 500_000_000  # of a table before it is read; in memory it takes up to four times as much

_NUMBER = 8  # bytes, of a number or of where a word is
MIXED = 0.8  # from this share of numbers on, the words among them are taken for mistakes

_DECIMAL_COMMA = r"\s*[-+]?\d*,?\d+([eE][-+]?\d+)?\s*"
_FEWER = "take a part of its rows (head, or sample), or leave out columns that say nothing"


def pandas() -> ModuleType:
    """pandas, imported where a table is read and nowhere else."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "tables are read with pandas, which is not installed; install it with: pip install 'tribayes[table]'"
        ) from error
    return pandas


def read_table(path: Path, columns: int = 2, words: Sequence[str] = ()) -> Any:
    """The table in a file, as a pandas DataFrame whose columns, this many at least, have names that differ.

    Columns that are known to hold `words` get them as they are written: in others 001 is the number 1.

    >>> _ = (folder / "heights.csv").write_text("name,height\\nAda,1.7\\nAlan,\\n")
    >>> read_table(folder / "heights.csv")
       name  height
    0   Ada     1.7
    1  Alan     NaN
    """
    if not path.is_file():
        raise refusal("DATA", str(path), "be a file", "correct the name")
    if path.suffix.lower() not in TABLE_ENDINGS:
        raise refusal("DATA", str(path), f"end in {', '.join(TABLE_ENDINGS)}", "save the table as CSV")
    _check_size(path, path.stat().st_size)
    return _read_parquet(path, columns) if path.suffix.lower() in PARQUET_ENDINGS else _read_csv(path, columns, words)


def _check_size(path: Path, size: int) -> None:
    if size > MOST_BYTES:
        requirement = f"have at most {MOST_BYTES / 1e6:,.0f} MB, but it has {size / 1e6:,.0f}"
        raise refusal("DATA", str(path), requirement, _FEWER)


def _read_csv(path: Path, columns: int, words: Sequence[str]) -> Any:
    tables = pandas()
    separator, header = check_csv(path, columns)
    try:
        table = tables.read_csv(
            path,
            sep=separator,
            encoding=ENCODING,
            header=0,
            names=header,
            index_col=False,
            dtype=dict.fromkeys(words, str),
            na_values=["?"],
            low_memory=False,
            skipinitialspace=True,
        )
    except (ValueError, OverflowError) as error:  # pandas' own errors are ValueErrors
        raise refusal("DATA", str(path), f"be a CSV table ({error})", "correct the line it names") from error
    return table if separator == "," else _with_decimal_points(table, words)


def _check_unpacked(path: Path, file: Any) -> None:
    """Refuse what is small because it says the same again and again: a word takes its room each time it is said."""
    import pyarrow.compute
    import pyarrow.parquet

    _check_size(path, _NUMBER * file.metadata.num_rows * len(file.schema_arrow.names))
    words = [each.name for each in file.schema_arrow if pyarrow.types.is_string(each.type)]
    if not words:
        return
    with pyarrow.parquet.ParquetFile(path, read_dictionary=words) as again:
        size = 0
        for name in words:
            for part in again.read(columns=[name]).column(0).chunks:
                lengths = pyarrow.compute.binary_length(part.dictionary)
                size += pyarrow.compute.sum(lengths.take(part.indices).cast("int64")).as_py() or 0
            _check_size(path, size)


def _with_decimal_points(table: Any, words: Sequence[str]) -> Any:
    """Where no comma separates cells, it is the decimal sign of columns whose cells nearly all are such numbers."""
    for name in table.columns.difference(words):
        if not pandas().api.types.is_numeric_dtype(table[name]) and table[name].notna().any():
            cells = table[name].astype("string")
            written = cells.str.fullmatch(_DECIMAL_COMMA).fillna(False).astype(bool)
            if written.sum() >= MIXED * cells.notna().sum() and cells[written].str.contains(",").any():
                table[name] = cells.where(~written, cells.str.replace(",", "."))
    return table


def _read_parquet(path: Path, columns: int) -> Any:
    tables = pandas()
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            "Parquet is read with pyarrow, which is not installed; install it with: pip install 'tribayes[table]'"
        ) from error
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
            _check_size(path, sum(group.total_byte_size for group in groups))
            check_names(path, file.schema_arrow.names, columns)
            _check_unpacked(path, file)
            file.read().validate(full=True)  # words that are no UTF-8 would be met only when they are used
    except (pyarrow.ArrowException, OSError) as error:
        raise _no_parquet(path, str(error)) from error
    try:
        found = tables.read_parquet(path, engine="pyarrow").reset_index(drop=True)
    except (pyarrow.ArrowException, OSError, KeyError, TypeError, ValueError) as error:  # what pandas noted in it
        raise _no_parquet(path, f"{type(error).__name__}: {error}") from error
    if not len(found):
        raise refusal("DATA", str(path), "have rows", "it is empty but for names of columns")
    return found.set_axis([str(name) for name in found.columns], axis=1)  # as the file has them; pandas makes numbers


def _no_parquet(path: Path, error: str) -> ValueError:
    return refusal("DATA", str(path), f"be a Parquet table ({error.partition(chr(10))[0]})", "write it again")
