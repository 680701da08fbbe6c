"""Examples of docstrings as code: griffe, which reads them for the manual, takes bare `>>>` lines for text.

An extension, named in mkdocs.yml.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

# Rooms whose pages begin with what is in their files, such as `predict`: their own words, below, would seem to be its
_IN_PARTS = {"tribayes.distributed", "tribayes.inference", "tribayes.nn", "tribayes.prediction"}
_START = re.compile(r"( *)>>> ")


class FencedExamples(griffe.Extension):
    """Puts every doctest of a docstring into a code block."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for each object, when it and all that is in it have been read."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)
        if obj.path in _IN_PARTS:
            obj.docstring = None


def fenced(text: str) -> str:
    """A doctest goes from its first prompt to the next empty line.

    >>> fenced("Adds.\\n\\n    >>> 1 + 1\\n    2").splitlines()
    ['Adds.', '', '    ```pycon', '    >>> 1 + 1', '    2', '    ```']
    """
    lines: list[str] = []
    indent: str | None = None  # of the doctest under way
    for line in [*text.splitlines(), ""]:
        if indent is None and (start := _START.match(line)):
            indent = start[1]
            lines.append(f"{indent}```pycon")
        elif indent is not None and not line.strip():
            lines.append(f"{indent}```")
            indent = None
        lines.append(line)
    return "\n".join(lines[:-1])
