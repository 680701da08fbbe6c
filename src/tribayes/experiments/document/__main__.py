"""The command: write docs/results.md, its pictures and README's table, or check them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tribayes.experiments.document.build import document_problems, write_document
from tribayes.experiments.document.page import COMMAND


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0, or 1 where `--check` finds something out of date."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where something is out of date")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository's folder (default: this one)")
    options = parser.parse_args(arguments)
    if not options.check:
        for path in write_document(options.root):
            print(f"wrote {path}")
        return 0
    problems = document_problems(options.root)
    for problem in problems:
        print(f"{problem}; run: {COMMAND}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
