"""A billion weights in one tensor: each compared with its two normals, read from the same stream a piece at a time."""

from __future__ import annotations

import math
import os
from pathlib import Path

import torch
from torch import Tensor

from tribayes.posterior import Stream
from tribayes.posterior.draw import draw, implementation_for
from tribayes.posterior.parametrisation import delta_of, gamma_of

PIECE = 2**24  # a multiple of 16: torch makes normals sixteen at a time, so that pieces are what the whole is
MEAN, TAU, RHO, SEED = -0.5, 0.3, 0.4, 7
COPIES = 4  # of K numbers held at once: normals, |m|, their mixture, the draw; the mean here is one number for all
TOLERANCE = 1e-6  # of weights around ½: eight units in the last place


def needed(count: int) -> int:
    """Bytes that a draw of so many weights takes beside its means."""
    return 4 * COPIES * count


def available() -> int:
    """Bytes that the machine could still give."""
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGESIZE") + _cached()


def _cached() -> int:
    """Bytes of files that would make room: Linux says so."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
    return max(0, sizes["MemAvailable"] - sizes["MemFree"])


def compare(count: int) -> dict[str, float]:
    """The largest error over all weights, and over the last thousand; refused where memory does not suffice."""
    if needed(count) > 0.95 * available():
        have, wanted = available() / 2**30, needed(count) / 2**30
        raise SystemExit(f"a draw of {count:,} weights takes {wanted:.1f} GiB beside its means; {have:.1f} are free")
    before = _peak()
    mean = torch.tensor([MEAN]).expand(count)
    delta, gamma = delta_of(torch.tensor([TAU])), gamma_of(torch.tensor([RHO]))
    with torch.no_grad():
        (weights,), _ = draw([mean], delta, gamma, SEED)
    chosen = implementation_for([mean], delta, gamma)
    took = _peak() - before
    worst, last = errors(weights)
    if worst > TOLERANCE or not len(weights) == count:
        raise ArithmeticError(f"a weight of {count:,} is {worst} away from what its normals make")
    found = {"weights": count, "worst": worst, "worst_of_last_1000": last, "bytes_per_weight": took / count}
    return found | {"plain": float(chosen == "plain")}


def errors(weights: Tensor) -> tuple[float, float]:
    """|w_i − m − |m| τ (α x_i + β x_{i−1})|, the largest of all and of the last thousand, in double precision."""
    alpha = math.sqrt((1 + math.sqrt(1 - 4 * RHO**2)) / 2)  # α² + β² = 1 and αβ = ρ
    beta = RHO / alpha
    source = Stream((SEED,)).generator(torch.device("cpu"))
    total = len(weights) + 1
    previous, largest, last = None, 0.0, 0.0
    for start in [*range(0, max(1, total - 2 * PIECE), PIECE)]:
        end = start + PIECE if start + 3 * PIECE <= total else total
        x = torch.randn(end - start, generator=source).double()
        row = x if previous is None else torch.cat([previous, x])
        expected = MEAN + abs(MEAN) * TAU * (alpha * row[1:] + beta * row[:-1])
        begin = 0 if previous is None else start - 1
        error = (weights[begin : end - 1] - expected).abs()
        largest, last, previous = max(largest, float(error.max())), float(error[-1000:].max()), row[-1:]
    return largest, last


def _peak() -> int:
    """The most that this process has held, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
