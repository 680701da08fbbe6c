"""UCI regression by every arm: the same network, training and number of trials on held-out rows for each.

    python -m benchmarks.regressions --data-dir DIR          # train every arm with every value of its option
    python -m benchmarks.regressions --data-dir DIR --test   # once: score the chosen on the test rows
    python -m benchmarks.regressions --page                  # docs/regressions.md from the results
    python -m benchmarks.regressions --check                 # is it up to date?
    python -m benchmarks.regressions --data-dir DIR --quick  # does it run? nothing is written

DIR is laid out as $TRIBAYES_DATA, which is the default. IVON comes from `python -m benchmarks.peers.install`. What is
stored is not run again. Half an hour on one core.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.defaults.classification import data_folder
from benchmarks.regressions.document import document
from benchmarks.regressions.running import RESULTS, Study
from benchmarks.store import ROOT
from pages.files import out_of_date, write_texts
from tribayes._files import read_json

PAGE = ROOT / "docs" / "regressions.md"
SAID = ROOT / "runs" / "regressions"  # which git ignores


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=None, help="default: $TRIBAYES_DATA")
    parser.add_argument("--test", action="store_true", help="score the chosen on the test rows: once")
    parser.add_argument("--quick", action="store_true", help="two splits of one set, 20 steps; nothing is written")
    parser.add_argument("--page", action="store_true", help="write docs/regressions.md")
    parser.add_argument("--check", action="store_true", help="compare it with the results instead")
    arguments = parser.parse_args(words)
    if arguments.page or arguments.check:
        texts = {PAGE: document(read_json(RESULTS))}
        if arguments.page:
            write_texts(texts)
        elif out_of_date(texts):
            raise SystemExit(f"{PAGE.name} is not what the results say; run python -m benchmarks.regressions --page")
    elif arguments.quick:
        with tempfile.TemporaryDirectory() as said:
            study = Study(None, Path(said), data_folder(arguments.data_dir), sets=("yacht",), splits=2, steps=20)
            study.choose()
            study.look()
        print("every arm was trained, chosen and asked")
    else:
        study = Study(RESULTS, SAID, data_folder(arguments.data_dir))
        study.choose()
        if arguments.test:
            study.look()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
