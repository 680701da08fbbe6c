"""A page of sections: text, tables and pictures, in one file that needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, Self

from matplotlib.figure import Figure

from tribayes._errors import refusal
from tribayes._files import make_folder, store
from tribayes.report.css import CSS
from tribayes.report.html import html_table, safe
from tribayes.report.picture import html_picture


class _Block(NamedTuple):
    html: str
    beside: bool  # whether it may stand beside its neighbours on a wide screen


class Section:
    """Part of a page. Its methods add something at the end and return the section."""

    def __init__(self, heading: str) -> None:
        self.heading = heading
        self._blocks: list[_Block] = []

    def text(self, text: str) -> Self:
        """A paragraph."""
        self._blocks.append(_Block(f"<p>{safe(text)}</p>\n", beside=False))
        return self

    def table(self, header: Sequence[str], rows: Sequence[Sequence[object]], caption: str = "") -> Self:
        """A table; numbers are formatted and stand to the right."""
        self._blocks.append(_Block(html_table(header, rows, caption), beside=True))
        return self

    def picture(self, figure: Figure, alt: str, caption: str) -> Self:
        """A matplotlib figure. `alt` says in words what it shows, `caption` what to make of it.

        Pictures and tables that follow each other stand side by side where the screen is wide enough.
        """
        self._blocks.append(_Block(html_picture(figure, alt, caption), beside=True))
        return self

    def definitions(self, meanings: Mapping[str, str]) -> Self:
        """Terms and what they mean."""
        items = "".join(f"<dt>{safe(term)}</dt><dd>{safe(text)}</dd>\n" for term, text in meanings.items())
        self._blocks.append(_Block(f"<dl>\n{items}</dl>\n", beside=False))
        return self

    def html(self) -> str:
        """The section's HTML."""
        groups = groupby(self._blocks, key=lambda block: block.beside)
        parts = [_arranged([block.html for block in blocks], beside) for beside, blocks in groups]
        return f"<section>\n<h2>{safe(self.heading)}</h2>\n{''.join(parts)}</section>\n"


def _arranged(blocks: Sequence[str], beside: bool) -> str:
    if not beside:
        return "".join(blocks)
    columns = "beside three" if len(blocks) % 3 == 0 else "beside"
    return f'<div class="{columns}">\n{"".join(blocks)}</div>\n'


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
        self.title = title
        self.lead = lead
        self.footer = footer
        self._sections: list[Section] = []

    def section(self, heading: str) -> Section:
        """Begin a section and return it, to be filled."""
        self._sections.append(Section(heading))
        return self._sections[-1]

    def html(self) -> str:
        """The whole page."""
        lead = f'<p class="lead">{safe(self.lead)}</p>\n' if self.lead else ""
        footer = f"<footer>{safe(self.footer)}</footer>\n" if self.footer else ""
        body = "".join(section.html() for section in self._sections)
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{safe(self.title)}</title>\n<style>{CSS}</style>\n</head>\n"
            f"<body>\n<h1>{safe(self.title)}</h1>\n{lead}{body}{footer}</body>\n</html>\n"
        )

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, whole or not at all, making its folder; returns the path."""
        target = Path(path)
        if target.is_dir():
            raise refusal("path", str(target), "be a file, not a folder", "add a name, such as report.html")
        make_folder(target.parent)
        store(target, self.html().encode(), contested=True)
        return target
