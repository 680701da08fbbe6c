"""Notebooks of the examples: `python -m pages.notebooks` writes examples/notebooks/*.ipynb from examples/*.py.

A file is cut at its `# %%` lines; a `# %% [markdown]` part is text, and so is the docstring that it begins with.
Notebooks are kept without outputs: what they give is what the example gives, which a test runs. A picture that the
example saves is shown, too.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
_CUT = re.compile(r"^# %%(.*)\n", re.MULTILINE)
_SHOW = "\n\nfrom IPython.display import Image\n\nImage(str(PICTURE))"  # every notebook runs on IPython


def main() -> None:
    for example in sorted(path for path in EXAMPLES.glob("*.py") if _CUT.search(path.read_text())):
        target = EXAMPLES / "notebooks" / f"{example.stem}.ipynb"
        target.write_text(notebook(example))
        print(target.relative_to(EXAMPLES.parent))


def notebook(example: Path) -> str:
    """The notebook of an example, as the text of its file."""
    start, *rest = _CUT.split(example.read_text())
    kinds, parts = rest[::2], rest[1::2]
    cells = [_cell(0, "markdown", start.replace('"""', "").strip())]
    for number, (kind, part) in enumerate(zip(kinds, parts, strict=True), start=1):
        text = (re.sub(r"^# ?", "", part, flags=re.MULTILINE) if "[markdown]" in kind else part).strip()
        text += _SHOW if ".savefig(PICTURE" in text else ""
        cells.append(_cell(number, "markdown" if "[markdown]" in kind else "code", text))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def _cell(number: int, kind: str, text: str) -> dict[str, Any]:
    source = text.splitlines(keepends=True)
    cell: dict[str, Any] = {"cell_type": kind, "id": f"part-{number}", "metadata": {}, "source": source}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


if __name__ == "__main__":
    main()
