"""Numbers and tables as text: one way to write them for every page, every report and every terminal."""

from __future__ import annotations

from collections.abc import Sequence


def format_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns padded to their widest cell; numbers to the right, text to the left.

    >>> print(format_table(["name", "K"], [["weight", 12], ["b", 3]]))
    name     K
    ------  --
    weight  12
    b        3
    """
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(header, *cells, strict=True)]
    right = [all(_is_numeric(row[i]) for row in rows) and bool(rows) for i in range(len(header))]

    def line(texts: Sequence[str]) -> str:
        padded = (
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(texts, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip()

    return "\n".join([line(header), "  ".join("-" * width for width in widths), *map(line, cells)])


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same for a page in Markdown; every row has as many cells as the header."""
    lines = [list(header), ["---"] * len(header), *(list(row) for row in rows)]
    if any(len(line) != len(header) for line in lines):
        raise ValueError(f"a row of the table {list(header)} has another number of cells")
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def percent(share: float, digits: int = 0) -> str:
    """A share as a percentage.

    >>> percent(0.0213, 1)
    '2.1 %'
    """
    return f"{100 * share:.{digits}f} %"


def minus(text: str) -> str:
    """With the minus sign of a printed page."""
    return text.replace("-", "−")


def _is_numeric(cell: object) -> bool:
    return cell is None or isinstance(cell, int | float)


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.1e}" if cell and abs(cell) < 0.001 else f"{cell:.3f}"
    if isinstance(cell, int) and not isinstance(cell, bool):
        return f"{cell:,}"
    return str(cell)
