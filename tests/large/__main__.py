"""Run the long and the large, and store what was found."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from tests.large import draws, rows, steps
from tribayes._files import store_json

FIGURES = Path(__file__).with_name("figures.json")
TRIALS: dict[str, tuple[Callable[[int], Mapping[str, float | str]], int]] = {
    "steps": (steps.train, 1_000_000),
    "rows": (rows.stream, 10_000_000),
    "draw": (draws.compare, 1_000_000_000),
}
USUAL = ("steps", "rows")  # the draw needs more memory than many machines have


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.large", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="TRIAL", help=f"of {', '.join(TRIALS)}; default {', '.join(USUAL)}")
    parser.add_argument("--count", type=int, help="steps, rows or weights; default a million, ten million, a billion")
    parser.add_argument("--out", type=Path, default=FIGURES, help="where figures are stored")
    given = parser.parse_args(words)
    if unknown := set(given.names) - TRIALS.keys():
        parser.error(f"{sorted(unknown)[0]} is none of {', '.join(TRIALS)}")
    torch.set_num_threads(1)
    stored: dict[str, Any] = json.loads(given.out.read_text()) if given.out.exists() else {}
    for name in given.names or USUAL:
        run, usual = TRIALS[name]
        found = run(given.count or usual)
        place = {"date": str(datetime.now(UTC).date()), "python": platform.python_version(), "torch": torch.__version__}
        stored[name] = {**found, **place}
        store_json(given.out, stored)
        print(f"{name}: {found}", flush=True)


if __name__ == "__main__":
    main()
