"""Numbers and tables as text: one way to write them for every page, every report and every terminal."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10


def format_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns padded to their widest cell; numbers to the right, text to the left.

    >>> print(format_table(["name", "K"], [["weight", 12], ["b", 3]]))
    name     K
    ------  --
    weight  12
    b        3
    """
    columns = []
    for name, *cells in zip(header, *rows, strict=True):
        texts = [str(name), *map(_cell, cells)]
        width = max(map(len, texts))
        right = bool(cells) and all(isinstance(cell, int | float | None) for cell in cells)
        first, *others = (text.rjust(width) if right else text.ljust(width) for text in texts)
        columns.append([first, "-" * width, *others])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


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


def to_digits(value: float, digits: int, spread: float) -> str:
    """A number to so many digits of a spread: what lies far from zero, and close together, needs more of them.

    >>> to_digits(101325.4, 4, spread=500.0), to_digits(213.42, 4, spread=80.0)
    ('101325', '213.4')
    """
    far = abs(value) / spread if spread > 0 else 0.0
    more = floor(log10(far)) if 1 < far < float("inf") else 0
    return f"{value:.{min(digits + more, 17)}g}"  # 17 tell all floats apart


def figures(value: float, digits: int = 4) -> str:
    """A number to so many digits, as people write it: without powers of ten as long as they can count its places.

    >>> figures(23307.4), figures(8.13249), figures(0.00012), figures(2.5e15)
    ('23,310', '8.132', '0.00012', '2.5e+15')
    """
    text = f"{value:.{digits}g}"
    return f"{float(text):,.0f}" if "e+" in text and abs(value) < 1e9 else text


def percent(share: float, decimals: int = 0) -> str:
    """A share as a percentage, such as '2.1 %'."""
    return f"{100 * share:.{decimals}f} %"


def level_text(level: float) -> str:
    """A credibility level as a percentage, with no more digits than it needs: '95 %', '99.9 %'."""
    return f"{100 * level:g} %"


def minus(text: str) -> str:
    """The same text with the minus sign of a printed page: '−0.5'."""
    return text.replace("-", "−")


def printable(value: object, keep: str = "") -> str:
    """A name or a message as terminals, pages and pictures take it: what would command them is written out.

    Control characters, and bytes of a file's name that are no text; those in `keep` stay.

    >>> print(printable("runs/\\x1b[2J"), printable("Größe"))
    runs/\\x1b[2J Größe
    """
    return "".join(
        each if each.isprintable() or each in keep else each.encode("unicode_escape").decode() for each in str(value)
    )


def _cell(cell: object) -> str:
    if cell is None:
        return "-"
    return number(cell) if isinstance(cell, int | float) and not isinstance(cell, bool) else str(cell)
