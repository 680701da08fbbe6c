"""Floors: what bytes and operations alone would take on the machine that was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks import draw
from benchmarks.performance.markdown import by_name

FLOAT, HALF = 4, 2  # bytes


def draw_floor(size: int, figures: Mapping[str, Any], machine: Mapping[str, Any]) -> float:
    """Seconds of a draw and its backward pass: so many copies of K numbers, none shorter than that of the fewest.

    At the machine's speed of a copy: torch's own copy of some sizes is slower than that.
    """
    shortest = by_name(figures["sizes"][0]["timings"])[draw.COPY]["seconds"][1]
    copy = max(shortest, 2 * FLOAT * size / machine["copy_bytes_per_second"])
    return draw.COPIES["forward + backward"] * copy


def step_bytes(half: bool) -> int:
    """Bytes for each random weight that a step moves and the plain one does not.

    The guards read the means. A draw reads means and writes weights; backward, means and the weights' slopes are read
    and slopes of the means written. In half precision the plain step moves bytes that ours does not: it casts its
    weights, and their slopes back.
    """
    drawn = HALF if half else FLOAT
    ours = FLOAT + (FLOAT + drawn) + (FLOAT + drawn + FLOAT)
    casts = (FLOAT + HALF) + (HALF + FLOAT)
    return ours - casts if half else ours


def step_floor(row: Mapping[str, Any], machine: Mapping[str, Any], plain: float) -> float:
    """Seconds of our step: the plain one's, and the bytes beyond it."""
    return plain + row["random_weights"] * step_bytes(row["half"]) / machine["copy_bytes_per_second"]


def prediction_floor(figures: Mapping[str, Any], machine: Mapping[str, Any]) -> dict[str, float]:
    """Seconds by operations, and by what the layers read and write one after the other."""
    passes = figures["draws"] * figures["images"]
    return {
        "operations": passes * figures["flops_per_image"] / machine["flops_per_second"],
        "bytes": passes * figures["bytes_per_image"] / machine["copy_bytes_per_second"],
    }
