"""Which rule moves δ and γ best without tuning, from tensors of 10 weights to those of a million.

    python -m benchmarks.scale_steps                      # train what is missing, then write docs/steps.md
    python -m benchmarks.scale_steps --page               # the page from the stored results
    python -m benchmarks.scale_steps --check              # is it up to date?
    python -m benchmarks.scale_steps --largest 10000000 --device cuda --results FILE   # larger, on a GPU
    python -m benchmarks.scale_steps --quick              # does it run? seconds, nothing is written

The best τ and ρ are known in closed form (problem.py), the candidates are in rules.py. Results are kept after each
tensor, so the command goes on where it stopped.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.scale_steps.document import texts
from benchmarks.scale_steps.study import RESULTS, Results, Unit, arms_of, run, trained
from pages.files import out_of_date, write_texts
from tribayes._allocator import keep_freed_memory
from tribayes._progress import progress_bar


def main(words: Sequence[str] | None = None) -> None:
    arguments = _arguments(words)
    if arguments.quick:
        with progress_bar("training", None) as advance:
            unit = Unit("tridiagonal", 100, 50, 10.0)
            trained(unit, arms_of(unit), 1e-6, arguments.device, advance)
        return
    results = Results(arguments.results)
    if not (arguments.page or arguments.check):
        results.prepare(arguments.largest, arguments.device)
        run(results, arguments.device, progress_bar)
    if arguments.results != RESULTS:
        return  # the page is that of the repository's own file
    found = texts(results)
    if not arguments.check:
        write_texts(found)
    elif stale := out_of_date(found):
        raise SystemExit(f"{stale[0].name} is not what the results say; run python -m benchmarks.scale_steps --page")


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=1_000_000, help="weights of the largest tensor")
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    parser.add_argument("--page", action="store_true", help="write docs/steps.md from the results")
    parser.add_argument("--check", action="store_true", help="compare it instead")
    parser.add_argument("--quick", action="store_true", help="one small tensor, a few steps; nothing is written")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the results file")
    return parser.parse_args(words)


if __name__ == "__main__":
    torch.set_num_threads(1)
    keep_freed_memory()
    main()
