"""A page of sections in one file that needs nothing else: text, all of it escaped, tables, and pictures inside."""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Mapping, Sequence
from html import escape
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Self

from matplotlib import rc_context
from matplotlib.figure import Figure

from tribayes._errors import is_number, refusal, wrong_type
from tribayes._files import make_folder, path_of, store
from tribayes._text import minus, number, printable

_LEAST_DECIMALS, _MOST_DECIMALS = 2, 4
_LIMIT = 110_000  # bytes of a picture; a third more in base64, so below 150 kB in the page
_FORMS = (("svg", 150), ("png", 160), ("png", 120), ("png", 90), ("png", 60))  # and dots per inch, in this order

# The look, for a phone first: one column, no scripts, nothing fetched; light or dark as the reader's device.
_CSS = """
:root { color-scheme: light dark; --ink: #1c1c1c; --soft: #5c5c5c; --paper: #ffffff; --line: #d5d5d5; --tint: #f3f5f7; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --soft: #a9a9a9; --paper: #16181b; --line: #3a3d42; --tint: #22252a; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 80rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0 .25rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; padding-top: .6rem; border-top: 1px solid var(--line); }
p, dl { margin: .5rem 0; max-width: 42rem; }
.lead { font-size: 1.05rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); font-size: .9rem; padding-bottom: .3rem; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; }
thead th { border-bottom: 2px solid var(--line); }
.number { text-align: right; white-space: nowrap; }
.beside { display: grid; grid-template-columns: minmax(0, 1fr); gap: 1.2rem 1.8rem; align-items: start;
  margin: .8rem 0; }
@media (min-width: 46rem) { .beside { grid-template-columns: repeat(2, minmax(0, 1fr)); } }
@media (min-width: 72rem) { .beside.three { grid-template-columns: repeat(3, minmax(0, 1fr)); } }
figure, dd { margin: 0; }
figure img { display: block; width: 100%; height: auto; background: #ffffff; border: 1px solid var(--line);
  border-radius: 6px; padding: 4px; }
figcaption { color: var(--soft); font-size: .92rem; margin-top: .4rem; }
dt { font-weight: 600; margin-top: .5rem; }
footer { margin-top: 2.5rem; padding-top: .6rem; border-top: 1px solid var(--line); color: var(--soft);
  font-size: .85rem; }
@media (max-width: 30rem) { body { padding: .75rem; } table { font-size: .85rem; } th, td { padding-right: .55rem; } }
@media print { body { max-width: none; } figure, table { break-inside: avoid; } }
"""


class Section:
    """Part of a page. Its methods add something at the end and return the section.

    Example:
        >>> Section("Data").text("360 images.").table(["class", "images"], [["0", 36]]).heading
        'Data'
    """

    def __init__(self, heading: str) -> None:
        self.heading = heading
        self._blocks: list[tuple[str, bool]] = []  # HTML; whether it may stand beside others on a wide screen

    def text(self, text: str) -> Self:
        """A paragraph."""
        return self._add(f"<p>{_safe(text)}</p>\n", beside=False)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[object]], caption: str = "") -> Self:
        """A table; a column of numbers (None is an empty cell) stands to the right, a wide table scrolls by itself."""
        for name, cells in (("header", header), ("rows", rows)):
            if isinstance(cells, str) or not isinstance(cells, Sequence):
                raise wrong_type(name, cells, "be a sequence", "pass a list")
        for place, row in enumerate(rows):
            if isinstance(row, str) or not isinstance(row, Sequence):
                raise wrong_type(f"rows[{place}]", row, "be a sequence of cells", "pass a list")
            if len(row) != len(header):
                remedy = "give every row a cell for each column"
                raise refusal(f"rows[{place}]", row, f"have {len(header)} cells, as the header has", remedy)
        columns = [_column(place, name, [row[place] for row in rows]) for place, name in enumerate(header)]
        lines = ["".join(column[line] for column in columns) for line in range(len(rows) + 1)]
        head, *body = (f"<tr>{line}</tr>" for line in lines)
        title = f"<caption>{_safe(caption)}</caption>\n" if caption else ""
        inside = "\n".join([f"{title}<thead>{head}</thead>", "<tbody>", *body, "</tbody>"])
        return self._add(f'<div class="wide"><table>\n{inside}\n</table></div>\n', beside=True)

    def picture(self, figure: Figure, alt: str, caption: str) -> Self:
        """A matplotlib figure. `alt` says in words what it shows, `caption` what to make of it.

        Pictures and tables that follow each other stand side by side where the screen is wide enough.
        """
        if not isinstance(figure, Figure):
            raise wrong_type("figure", type(figure).__name__, "be a matplotlib Figure", "pass ax.figure")
        width, height = (round(96 * inches) for inches in figure.get_size_inches())
        image = f'<img src="{_source(figure)}" width="{width}" height="{height}" alt="{_safe(alt)}">'
        return self._add(f"<figure>{image}<figcaption>{_safe(caption)}</figcaption></figure>\n", beside=True)

    def definitions(self, meanings: Mapping[str, str]) -> Self:
        """Terms and what they mean."""
        if not isinstance(meanings, Mapping):
            raise wrong_type("meanings", meanings, "be a dict term -> meaning", "pass e.g. {'level': 'what it means'}")
        items = "".join(f"<dt>{_safe(term)}</dt><dd>{_safe(text)}</dd>\n" for term, text in meanings.items())
        return self._add(f"<dl>\n{items}</dl>\n", beside=False)

    def _add(self, html: str, beside: bool) -> Self:
        self._blocks.append((html, beside))
        return self

    def html(self) -> str:
        """The section's HTML."""
        parts = []
        for beside, group in groupby(self._blocks, key=lambda block: block[1]):
            blocks = [html for html, _ in group]
            columns = "beside three" if len(blocks) % 3 == 0 else "beside"
            parts += [f'<div class="{columns}">\n', *blocks, "</div>\n"] if beside else blocks
        return f"<section>\n<h2>{_safe(self.heading)}</h2>\n{''.join(parts)}</section>\n"


class Report:
    """A self-contained HTML page, readable on a phone: styles and pictures inside, no scripts, no links.

    All text is escaped: class names and titles may hold any characters.

    Example:
        >>> page = Report("Digits", "A convolutional network on 360 test images.")
        >>> section = page.section("Calibration").table(["quantity", "value"], [["error", 0.0139]])
        >>> page.write(folder / "report.html").name
        'report.html'
    """

    def __init__(self, title: str, lead: str = "", footer: str = "") -> None:
        self.title, self.lead, self.footer = title, lead, footer
        self._sections: list[Section] = []

    def section(self, heading: str) -> Section:
        """Begin a section and return it, to be filled."""
        self._sections.append(Section(heading))
        return self._sections[-1]

    def html(self) -> str:
        """The whole page."""
        lead = f'<p class="lead">{_safe(self.lead)}</p>\n' if self.lead else ""
        footer = f"<footer>{_safe(self.footer)}</footer>\n" if self.footer else ""
        body = "".join(section.html() for section in self._sections)
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{_safe(self.title)}</title>\n<style>{_CSS}</style>\n</head>\n"
            f"<body>\n<h1>{_safe(self.title)}</h1>\n{lead}{body}{footer}</body>\n</html>\n"
        )

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, whole or not at all, making its folder; returns the path."""
        target = path_of("path", path)
        if target.is_dir():
            raise refusal("path", str(target), "be a file, not a folder", "add a name, such as report.html")
        make_folder(target.parent)
        store(target, self.html().encode(), contested=True)
        return target


def _safe(text: object) -> str:
    """`text` for any place in HTML, attributes included; a percent sign never begins a line."""
    return escape(printable(str(text), keep="\n\t")).replace(" %", "\u00a0%")


def _column(place: int, name: str, cells: Sequence[object]) -> list[str]:
    """A column's cells in HTML, its name on top; numbers have the same decimals, enough for the smallest."""
    sizes = [abs(cell) for cell in cells if isinstance(cell, float) and cell and math.isfinite(cell)]
    decimals = min(_MOST_DECIMALS, max(_LEAST_DECIMALS, 1 - math.floor(math.log10(min(sizes, default=1.0)))))
    numeric = any(map(is_number, cells)) and all(cell is None or is_number(cell) for cell in cells)
    look = ' class="number"' if numeric else ""
    opening, tag = ('th scope="row"', "th") if place == 0 and not numeric else (f"td{look}", "td")
    column = [f'<th scope="col"{look}>{_safe(name)}</th>']
    for cell in cells:
        text = "" if cell is None else str(cell)
        if isinstance(cell, int | float) and is_number(cell):
            text = minus(number(cell, decimals))
        column.append(f"<{opening}>{_safe(text)}</{tag}>")
    return column


def _source(figure: Figure) -> str:
    """The figure itself as an address, in the first form that is small enough, else the last."""
    with rc_context({"svg.hashsalt": "tribayes"}):  # the same figure gives the same bytes
        for kind, resolution in _FORMS:
            buffer = BytesIO()
            unchanging = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
            figure.savefig(buffer, format=kind, dpi=resolution, metadata=unchanging)
            if buffer.tell() <= _LIMIT:
                break
    return f"data:image/{'png' if kind == 'png' else 'svg+xml'};base64,{base64.b64encode(buffer.getvalue()).decode()}"
