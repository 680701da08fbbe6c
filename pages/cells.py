"""Figures in the tables of the manual stay whole: "5.31 ± 0.06" is no use in three lines, which a phone makes of it.

A hook, named in mkdocs.yml.
"""

from __future__ import annotations

import re

_CELL = re.compile(r"<td[^>]*>.*?</td>", re.DOTALL)
_GAP = re.compile(r"(?<=\d) (?=[±%])|(?<=±) (?=\d)")


def on_page_content(html: str, **_: object) -> str:
    """Called by mkdocs for each page.

    >>> on_page_content("<td>5.31 ± 0.06 %</td>").replace("\u00a0", "_")
    '<td>5.31_±_0.06_%</td>'
    >>> on_page_content("<p>5 %</p><td><code>5 % 3</code></td>")
    '<p>5 %</p><td><code>5 % 3</code></td>'
    """
    return _CELL.sub(lambda cell: cell[0] if "<code>" in cell[0] else _GAP.sub("\u00a0", cell[0]), html)
