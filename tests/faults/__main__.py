"""Run the trials and store what was counted."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

import torch

from tests.faults.tally import Tally
from tests.faults.trials import TRIALS, timed
from tribayes._files import store_json

COUNTS = Path(__file__).with_name("counts.json")


def keep(path: Path, name: str, scale: float, seed: int, tally: Tally) -> None:
    """Store what one trial counted, at once; what others counted before stays."""
    trials = json.loads(path.read_text())["trials"] if path.exists() else {}
    trials[name] = {"promise": TRIALS[name].promise, "scale": scale, "seed": seed, **tally.as_dict()}
    place = {"python": platform.python_version(), "torch": torch.__version__, "platform": platform.system()}
    known = {each: trials[each] for each in TRIALS if each in trials}
    store_json(path, {"date": str(datetime.now(UTC).date()), **place, "trials": known})


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of all tries")
    parser.add_argument("--only", nargs="*", choices=list(TRIALS), default=list(TRIALS), metavar="TRIAL")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="trials at a time")
    parser.add_argument("--out", type=Path, default=COUNTS, help="where counts are stored")
    given = parser.parse_args(words)
    broken = False
    with ProcessPoolExecutor(given.jobs, get_context("spawn"), max_tasks_per_child=1) as pool:
        running = {pool.submit(timed, name, given.scale, given.seed): name for name in given.only}
        for done in as_completed(running):
            name, (tally, seconds) = running[done], done.result()
            keep(given.out, name, given.scale, given.seed, tally)
            print(f"{name}: {tally.held:,} of {tally.tried:,} held, {seconds:.0f} s", flush=True)
            for words_of_one in tally.broken:
                print(f"  {words_of_one}", flush=True)
            broken = broken or tally.held < tally.tried
    sys.exit(broken)


if __name__ == "__main__":
    main()
