"""Put every source of draws and of intervals to the test, and store the p-values."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import islice, product
from pathlib import Path
from typing import Any

import torch

from tests.statistics import bits, coverage, normals, sources
from tribayes._files import store_json
from tribayes.posterior import Stream
from tribayes.posterior.draw import cuda

FIGURES = Path(__file__).with_name("figures.json")
ON_GPU = Path(__file__).with_name("figures-gpu.json")
LEAST = 1e-7  # p-values below it are faults: for 300 of them, one run in 30,000 without a fault
Figures = dict[str, Any]


def names(count: int, _: bool) -> Figures:
    """How many of so many (seed, sample, module) have a stream of their own on a GPU, and so on every device.

    The kernels take 62 bits of a stream's number; torch's own generator of a GPU takes all 63, and a CPU's whole state
    begins with them.
    """
    triples = islice(product(range(100), range(1000), range(10)), count)
    found = {cuda.seed_number(Stream((seed,)).child(sample, module)) for seed, sample, module in triples}
    return {"tried": count, "distinct": len(found)}


def words(count: int, _: bool) -> Figures:
    return {name: {"count": count, "p": bits.battery(make(count))} for name, make in sources.WORDS.items()}


def values(count: int, _: bool) -> Figures:
    return {name: {"count": count, "p": normals.battery(make(count))} for name, make in sources.NORMALS.items()}


def neighbours(count: int, _: bool) -> Figures:
    """All pairs of so many streams beside each other, 1,000 normals each; and the battery for their first normals."""
    found = {}
    for axis, device in product(sources.NEIGHBOURS, ("cpu", "gpu")):
        rows = sources.beside(axis, device, count, 1000)
        p = {"largest correlation": normals.largest_correlation(rows)}
        p |= {f"first: {name}": value for name, value in normals.battery(rows[:, 0]).items()}
        found[f"{axis}, {device}"] = {"count": count, "p": p}
    return found


def triton(count: int, _: bool) -> Figures:
    return {name: {"count": count, "p": normals.battery(make(count))} for name, make in sources.TRITON.items()}


def intervals(count: int, short: bool) -> Figures:
    steps = 150 if short else 1000
    found = {"exact posterior, mean_field": coverage.conjugate(count, "mean_field", steps)}
    if not short:
        found["exact posterior, tridiagonal"] = coverage.conjugate(count, "tridiagonal", 500)
    return found | {"overconfident network": coverage.conformal(count, 200)}


TRIALS: dict[str, tuple[Callable[[int, bool], Figures], int, int]] = {  # and how many, in full and short
    "names": (names, 1_000_000, 10_000),
    "words": (words, 2**23, 2**17),
    "normals": (values, 2**21, 2**16),
    "neighbours": (neighbours, 2000, 300),
    "intervals": (intervals, 1000, 200),
}
TRIALS_ON_GPU: dict[str, tuple[Callable[[int, bool], Figures], int, int]] = {"triton": (triton, 2**24, 2**17)}


def faults(found: Figures, path: str = "") -> list[str]:
    """What no generator without a fault would give: p-values below `LEAST`, and shared names."""
    listed = []
    for name, value in found.items():
        place = f"{path}, {name}" if path else name
        if isinstance(value, dict):
            listed += faults(value, place)
        elif (name == "p" or ", p, " in place) and "as trained" not in place and value < LEAST:
            listed.append(f"{place}: {value:.1e}")
    if found.get("distinct") != found.get("tried"):
        listed.append(f"{path}: {found['tried'] - found['distinct']} streams are another's")
    return listed


def run(name: str, short: bool) -> Figures:
    trial, full, few = (TRIALS | TRIALS_ON_GPU)[name]
    return trial(few if short else full, short)


def main(given_words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.statistics", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="TRIAL", help=f"of {', '.join(TRIALS)}; default all")
    parser.add_argument("--gpu", action="store_true", help=f"what needs a GPU: {', '.join(TRIALS_ON_GPU)}")
    parser.add_argument("--short", action="store_true", help="few of each; nothing is stored")
    parser.add_argument("--out", type=Path, help="where p-values are stored; default beside this program")
    given = parser.parse_args(given_words)
    known = TRIALS_ON_GPU if given.gpu else TRIALS
    if unknown := set(given.names) - known.keys():
        parser.error(f"{sorted(unknown)[0]} is none of {', '.join(known)}")
    torch.set_num_threads(1)
    out = given.out or (ON_GPU if given.gpu else FIGURES)
    stored: Figures = json.loads(out.read_text()) if out.exists() else {"trials": {}}
    broken = []
    for name in given.names or known:
        found = run(name, given.short)
        broken += faults(found, name)
        print(f"{name}: done", flush=True)
        if not given.short:
            stored["trials"][name] = found
            place = {"python": platform.python_version(), "torch": torch.__version__}
            if given.gpu:
                place["device"] = torch.cuda.get_device_name()
            store_json(out, stored | {"date": str(datetime.now(UTC).date())} | place)
    print("\n".join(broken) or "nothing is out of order")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
