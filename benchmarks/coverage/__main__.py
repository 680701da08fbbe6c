"""Do intervals and sets hold what they promise? Coverage and width, beside MAPIE's from the same networks.

    python -m benchmarks.coverage --data-dir DIR            # run what is missing, then write docs/coverage.md
    python -m benchmarks.coverage --page [--check]          # only the page, from the stored file; or is it up to date?
    python -m benchmarks.coverage --data-dir DIR --quick    # does it run? a minute, nothing is written

DIR holds uci/concrete, uci/energy, uci/yacht and fashion-mnist (default: $TRIBAYES_DATA). Figures are stored after each
data set, and what is stored is not run again; --again runs it nevertheless. MAPIE's rows need
`python -m benchmarks.peers.install` first, and are left out without it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks import peers
from benchmarks.coverage.cases import TASKS
from benchmarks.coverage.document import document
from benchmarks.coverage.runs import RESULTS, Results, jobs, quick, run
from benchmarks.store import ROOT
from pages.files import out_of_date, write_texts
from tribayes._progress import progress_bar

COMMAND = "python -m benchmarks.coverage --page"
PAGE = ROOT / "docs" / "coverage.md"


def main(words: Sequence[str] | None = None) -> None:
    arguments = _arguments(words)
    results = Results(arguments.results)
    if not (arguments.page or arguments.check):
        _measure(results, arguments)
    if arguments.quick:
        return
    texts = {arguments.into: document(results)}
    if not arguments.check:
        write_texts(texts)
    elif out_of_date(texts):
        raise SystemExit(f"{arguments.into.name} is not what the results say; run {COMMAND}")


def _measure(results: Results, arguments: argparse.Namespace) -> None:
    planned = jobs(arguments.set or list(TASKS))
    if arguments.quick:
        planned = [quick(job) for job in planned]
    elif not arguments.again:
        planned = [job for job in planned if not results.has(job)]
    if planned and arguments.data_dir is None:
        raise SystemExit("where is the data? pass --data-dir DIR or set TRIBAYES_DATA")
    with progress_bar("coverage", sum(job.work for job in planned)) as advance:
        for job in planned:
            found = run(job, arguments.data_dir, advance, arguments.peers)
            if not arguments.quick:
                results.add(job, found)


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("TRIBAYES_DATA")
    parser.add_argument("--data-dir", type=Path, default=Path(default) if default else None)
    parser.add_argument("--set", action="append", choices=TASKS, help="only this set; may be repeated")
    parser.add_argument("--again", action="store_true", help="run also what is stored")
    parser.add_argument("--quick", action="store_true", help="two splits and a few steps; nothing is written")
    parser.add_argument("--page", action="store_true", help="only write the page from the results")
    parser.add_argument("--check", action="store_true", help="compare the page with the results instead")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the results file")
    parser.add_argument("--into", type=Path, default=PAGE, help="the page")
    parser.add_argument("--peers", type=Path, default=peers.SITE, help="folder that benchmarks.peers.install made")
    return parser.parse_args(words)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
