"""Generated texts on disk: written, or compared with what they should be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tribayes._errors import refusal
from tribayes._files import store


def write_texts(texts: Mapping[Path, str]) -> None:
    """Write every file in one step each."""
    for path, text in texts.items():
        store(path, text.encode())


def out_of_date(texts: Mapping[Path, str]) -> list[Path]:
    """The files that are missing, or not what they should be."""
    return [path for path, text in texts.items() if not path.is_file() or path.read_bytes() != text.encode()]


def with_block(readme: str, name: str, block: str) -> str:
    """A README with this block between the marks of that name.

    >>> with_block("<!-- speed:start -->\\nold\\n<!-- speed:end -->", "speed", "new\\n")
    '<!-- speed:start -->\\nnew\\n<!-- speed:end -->'
    """
    start, end = f"<!-- {name}:start -->", f"<!-- {name}:end -->"
    if readme.count(start) != 1 or readme.count(end) != 1 or readme.index(start) > readme.index(end):
        raise refusal("README.md", f"{start} … {end}", "hold both marks once, in this order", "put them back")
    before, rest = readme.split(start)
    return f"{before}{start}\n{block}{end}{rest.split(end)[1]}"
