"""docs/performance.md, and the table of README and docs/comparison.md, from the stored results.

python -m benchmarks.performance           # write them
python -m benchmarks.performance --check   # are they up to date?
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.performance.document import document
from benchmarks.performance.readme import speed_block
from benchmarks.store import RESULTS, ROOT
from pages.files import out_of_date, with_block, write_texts

PAGE = ROOT / "docs" / "performance.md"
WITH_TABLE = [ROOT / "README.md", ROOT / "docs" / "comparison.md"]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder with the result files")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--readme", type=Path, nargs="+", default=WITH_TABLE, help="pages with the table")
    arguments = parser.parse_args(words)
    table = speed_block(arguments.results)
    texts = {page: with_block(page.read_text("utf-8"), "speed", table) for page in arguments.readme}
    texts = {arguments.page: document(arguments.results), **texts}
    if not arguments.check:
        write_texts(texts)
    elif stale := out_of_date(texts):
        raise SystemExit(f"{stale[0].name} is not what the results say; run python -m benchmarks.performance")


if __name__ == "__main__":
    main()
