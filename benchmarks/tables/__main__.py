"""tribayes's scikit-learn estimators beside boosting, NGBoost and MAPIE: error, NLL, coverage and width on six tables.

    python -m benchmarks.tables [--data-dir DIR]     # run what is missing, then write docs/tables.md
    python -m benchmarks.tables --page [--check]     # only the page, from the stored file; or is it up to date?

DIR holds uci/concrete, uci/energy and uci/yacht (default: $TRIBAYES_DATA); without it these are left out, and without
`python -m benchmarks.peers.install` the arms of NGBoost and MAPIE. Figures are stored after each split, and what is
stored is not run again.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.store import ROOT
from benchmarks.tables.cases import SPLITS, TABLES
from benchmarks.tables.document import document
from benchmarks.tables.results import RESULTS, Results, run
from pages.files import out_of_date, write_texts
from tribayes._progress import progress_bar

COMMAND = "python -m benchmarks.tables --page"
PAGE = ROOT / "docs" / "tables.md"


def main(words: Sequence[str] | None = None) -> None:
    arguments = _arguments(words)
    results = Results(arguments.results)
    if not (arguments.page or arguments.check):
        _measure(results, arguments)
    texts = {arguments.into: document(results)}
    if not arguments.check:
        write_texts(texts)
    elif out_of_date(texts):
        raise SystemExit(f"{arguments.into.name} is not what the results say; run {COMMAND}")


def _measure(results: Results, arguments: argparse.Namespace) -> None:
    """Split by split over all tables, so that what is there when time is up is fair to all of them."""
    folder, asked = arguments.data_dir, arguments.set or TABLES
    names = [name for name in asked if folder is not None or not TABLES[name].own_files]
    planned = [(name, split) for split in range(SPLITS) for name in names if not results.has(name, split)]
    with progress_bar("tables", len(planned)) as advance:
        for name, split in planned:
            results.add(name, split, run(name, split, folder))
            advance(remark=f"{name}, split {split}")


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("TRIBAYES_DATA")
    parser.add_argument("--data-dir", type=Path, default=Path(default) if default else None)
    parser.add_argument("--set", action="append", choices=TABLES, help="only this table; may be repeated")
    parser.add_argument("--page", action="store_true", help="only write the page from the results")
    parser.add_argument("--check", action="store_true", help="compare the page with the results instead")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the results file")
    parser.add_argument("--into", type=Path, default=PAGE, help="the page")
    return parser.parse_args(words)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
