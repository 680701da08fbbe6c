"""Tables of generated pages."""

from __future__ import annotations

from collections.abc import Sequence


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; every row has as many cells as the header."""
    lines = [list(header), ["---"] * len(header), *(list(row) for row in rows)]
    if any(len(line) != len(header) for line in lines):
        raise ValueError(f"a row of the table {list(header)} has another number of cells")
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
