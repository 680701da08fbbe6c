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
    cells = [[_cell(cell) for cell in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(header, *cells, strict=True)]
    numeric = [bool(rows) and all(isinstance(row[i], int | float | None) for row in rows) for i in range(len(header))]
    aligned = [str.rjust if right else str.ljust for right in numeric]

    def line(texts: Sequence[str]) -> str:
        padded = (align(text, width) for align, text, width in zip(aligned, texts, widths, strict=True))
        return "  ".join(padded).rstrip()

    return "\n".join([line(header), "  ".join("-" * width for width in widths), *map(line, cells)])


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same for a page in Markdown; every row has as many cells as the header.

    >>> print(markdown_table(["name", "K"], [["weight", "12"]]), end="")
    | name | K |
    | --- | --- |
    | weight | 12 |
    """
    lines = [list(header), ["---"] * len(header), *(list(row) for row in rows)]
    if any(len(line) != len(header) for line in lines):
        raise ValueError(f"a row of the table {list(header)} has another number of cells")
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def number(value: float, decimals: int | None = None) -> str:
    """A number with its thousands set apart; a float has `decimals`, else three, or powers of ten where it is tiny.

    >>> number(60_000), number(0.05), number(0.00012), number(1234.5, decimals=1)
    ('60,000', '0.050', '1.2e-04', '1,234.5')
    """
    if isinstance(value, int):
        return f"{value:,}"
    if decimals is None and value and abs(value) < 0.001:
        return f"{value:.1e}"
    return f"{value:,.{3 if decimals is None else decimals}f}"


def percent(share: float, decimals: int = 0) -> str:
    """A share as a percentage.

    >>> percent(0.0213, 1)
    '2.1 %'
    """
    return f"{100 * share:.{decimals}f} %"


def level_text(level: float) -> str:
    """A credibility level as a percentage, with no more digits than it needs.

    >>> level_text(0.95), level_text(0.999)
    ('95 %', '99.9 %')
    """
    return f"{100 * level:g} %"


def minus(text: str) -> str:
    """The same text with the minus sign of a printed page.

    >>> minus("-0.5")
    '−0.5'
    """
    return text.replace("-", "−")


def _cell(cell: object) -> str:
    if cell is None:
        return "-"
    return number(cell) if isinstance(cell, int | float) and not isinstance(cell, bool) else str(cell)
