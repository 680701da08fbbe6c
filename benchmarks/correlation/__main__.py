"""Where correlation pays: the diagonal law beside five correlated ones, on clean, rough, smooth and foreign images.

    python -m benchmarks.correlation --data-dir DIR          # train and judge what is not stored
    python -m benchmarks.correlation --page                  # docs/correlation.md from the results
    python -m benchmarks.correlation --check                 # is it up to date?
    python -m benchmarks.correlation --data-dir DIR --quick  # does it run? nothing is written

DIR is laid out as $TRIBAYES_DATA, which is the default: mnist/, fashion-mnist/, kmnist/. Results are stored after each
network, and what is stored is not run again; `--seconds` begins none later than that. An hour and a half on one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.correlation.document import document
from benchmarks.correlation.plan import ARMS, TASKS, Job, jobs
from benchmarks.correlation.running import RESULTS, run
from benchmarks.defaults.classification import data_folder
from benchmarks.store import ROOT
from pages.files import out_of_date, write_texts
from tribayes._files import read_json

PAGE = ROOT / "docs" / "correlation.md"
COMMAND = "python -m benchmarks.correlation"


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=None, help="default: $TRIBAYES_DATA")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no network later than this")
    parser.add_argument("--quick", action="store_true", help="one epoch of each law; nothing is written")
    parser.add_argument("--page", action="store_true", help="write docs/correlation.md")
    parser.add_argument("--check", action="store_true", help="compare it with the results instead")
    arguments = parser.parse_args(words)
    if arguments.page or arguments.check:
        texts = {PAGE: document(read_json(RESULTS))}
        if arguments.page:
            write_texts(texts)
        elif out_of_date(texts):
            raise SystemExit(f"{PAGE.name} is not what the results say; run {COMMAND} --page")
        return
    folder = data_folder(arguments.data_dir)
    if arguments.quick:
        run([Job(TASKS[0], arm, 0.1, 0) for arm in ARMS], None, folder, arguments.seconds, epochs=1)
    elif left := run(jobs(), RESULTS, folder, arguments.seconds):
        print(f"{left} networks are left; the same command goes on")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
