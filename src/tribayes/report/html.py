"""Text and tables as HTML: everything escaped, numbers to the right, wide tables scrolling by themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from tribayes._errors import is_number, refusal
from tribayes._text import minus, number

_LEAST_DECIMALS, _MOST_DECIMALS = 2, 4


def safe(text: str) -> str:
    """`text` for any place in HTML, attributes included; a percent sign never begins a line.

    >>> safe("<b> 5 %")
    '&lt;b&gt; 5\\xa0%'
    """
    return escape(text).replace(" %", "\u00a0%")


def html_table(header: Sequence[str], rows: Sequence[Sequence[object]], caption: str = "") -> str:
    """The table's HTML; a column is numeric where all its cells are numbers (None is an empty one).

    >>> print(html_table(["name", "K"], [["weight", 1200]]))
    <div class="wide"><table>
    <thead><tr><th scope="col">name</th><th scope="col" class="number">K</th></tr></thead>
    <tbody>
    <tr><th scope="row">weight</th><td class="number">1,200</td></tr>
    </tbody>
    </table></div>
    """
    for place, row in enumerate(rows):
        if len(row) != len(header):
            remedy = "give every row a cell for each column"
            raise refusal(f"rows[{place}]", row, f"have {len(header)} cells, as the header has", remedy)
    columns = [_column([row[place] for row in rows]) for place in range(len(header))]
    head = "".join(_cell("th", name, column.are_numbers, "col") for name, column in zip(header, columns, strict=True))
    body = "".join(f"<tr>{_row(columns, place)}</tr>\n" for place in range(len(rows)))
    title = f"<caption>{safe(caption)}</caption>\n" if caption else ""
    inside = f"{title}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n"
    return f'<div class="wide"><table>\n{inside}</table></div>\n'


class _Column(NamedTuple):
    texts: list[str]
    are_numbers: bool


def _column(cells: Sequence[object]) -> _Column:
    """Its cells as a reader wants them: numbers with the same decimals, enough for the smallest."""
    numbers = [cell for cell in cells if is_number(cell)]
    sizes = [abs(cell) for cell in cells if isinstance(cell, float) and cell and math.isfinite(cell)]
    decimals = min(_MOST_DECIMALS, max(_LEAST_DECIMALS, 1 - math.floor(math.log10(min(sizes, default=1.0)))))
    are_numbers = bool(numbers) and all(cell is None or is_number(cell) for cell in cells)
    return _Column([_text(cell, decimals) for cell in cells], are_numbers)


def _text(cell: object, decimals: int) -> str:
    if cell is None:
        return ""
    return minus(number(cell, decimals)) if isinstance(cell, int | float) and is_number(cell) else str(cell)


def _row(columns: Sequence[_Column], place: int) -> str:
    """The first cell names the row, unless it is a number."""
    cells = [_cell("td", column.texts[place], column.are_numbers) for column in columns]
    if columns and not columns[0].are_numbers:
        cells[0] = _cell("th", columns[0].texts[place], False, "row")
    return "".join(cells)


def _cell(tag: str, text: str, is_numeric: bool, scope: str = "") -> str:
    attributes = (f' scope="{scope}"' if scope else "") + (' class="number"' if is_numeric else "")
    return f"<{tag}{attributes}>{safe(text)}</{tag}>"
