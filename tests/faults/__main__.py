"""Run the trials and store what was counted."""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from tests.faults import calls, files, models, processes
from tests.faults.tally import Tally, Trial
from tribayes._files import store_json

COUNTS = Path(__file__).with_name("counts.json")

TRIALS = {
    "kills": Trial("a run killed at random times ends with the same bits", 60, processes.kill_at_random),
    "operations": Trial("a run killed before any file operation does, too", 200, processes.kill_at_operations),
    "full disk": Trial("a full disk is said, and the run goes on later", 40, processes.fill_the_disk),
    "copies": Trial("a run goes on where it was copied or moved to", 20, processes.move_and_copy),
    "clocks": Trial("clocks that jump change no bit", 20, processes.turn_the_clock),
    "tensors": Trial("a damaged checkpoint or network is refused", 2000, files.damage_tensors),
    "json": Trial("a changed setting or record is noticed, other JSON gives no traceback", 2000, files.damage_json),
    "images": Trial("a damaged image is read or refused, without traceback or warning", 20_000, files.damage_images),
    "data": Trial("a damaged data file or archive is refused", 5000, files.damage_data),
    "calls": Trial("odd arguments give an answer without NaN, or our own error", 20_000, calls.call_at_random),
    "streams": Trial("no two of (seed, sample, module) share random numbers", 1_000_000, models.name_streams),
    "threads": Trial("threads that share a model get the answers they get alone", 500, models.ask_in_threads),
    "forks": Trial("a forked process gives its parent's answers", 100, models.ask_after_a_fork),
    "questions": Trial("an interrupt anywhere in predict leaves the model as it was", 5000, models.interrupt_questions),
    "steps": Trial("an interrupt anywhere in a step leaves a model that trains on", 3000, models.interrupt_steps),
    "memory": Trial("memory stays flat over predictions and steps", 40, models.ask_for_ever),
}  # fmt: skip


def attempt(name: str, scale: float, seed: int = 0) -> Tally:
    """One trial in a folder of its own."""
    trial = TRIALS[name]
    with tempfile.TemporaryDirectory() as folder:
        return trial.run(max(3, round(scale * trial.count)), random.Random(f"{seed} {name}"), Path(folder))


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of all tries")
    parser.add_argument("--only", nargs="*", choices=list(TRIALS), default=list(TRIALS), metavar="TRIAL")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=COUNTS, help="where counts are stored")
    given = parser.parse_args(words)
    counted: dict[str, Any] = {}
    for name in given.only:
        started = time.monotonic()
        tally = attempt(name, given.scale, given.seed)
        counted[name] = {"promise": TRIALS[name].promise, "scale": given.scale, **tally.as_dict()}
        print(f"{name}: {tally.held:,} of {tally.tried:,} held, {time.monotonic() - started:.0f} s", flush=True)
        for broken in tally.broken:
            print(f"  {broken}")
    place = {"python": platform.python_version(), "torch": torch.__version__, "platform": platform.system()}
    before = json.loads(given.out.read_text())["trials"] if given.out.exists() and given.only != list(TRIALS) else {}
    stored: dict[str, Any] = {"seed": given.seed, "date": str(datetime.now(UTC).date()), **place}
    found = before | counted
    stored["trials"] = {name: found[name] for name in TRIALS if name in found}
    store_json(given.out, stored)
    sys.exit(any(each["broken"] for each in counted.values()))


if __name__ == "__main__":
    main()
