"""docs/performance.md from the stored results.

python -m benchmarks.performance           # write it
python -m benchmarks.performance --check   # is it up to date?
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.performance.document import document
from benchmarks.store import RESULTS, ROOT

PAGE = ROOT / "docs" / "performance.md"


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder with the result files")
    parser.add_argument("--page", type=Path, default=PAGE)
    arguments = parser.parse_args(words)
    text = document(arguments.results)
    if not arguments.check:
        arguments.page.write_text(text)
    elif not arguments.page.is_file() or arguments.page.read_text() != text:
        raise SystemExit(f"{arguments.page.name} is not what the results say; run python -m benchmarks.performance")


if __name__ == "__main__":
    main()
