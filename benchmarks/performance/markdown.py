"""Lists in Markdown, and numbers as a reader wants them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, log10
from typing import Any

MISSING = "–"


def number(value: float | None, digits: int = 3) -> str:
    """Significant digits, never in the form 1e-05."""
    if value is None:
        return MISSING
    if value == 0 or abs(value) >= 10**digits:
        return f"{value:,.0f}"
    decimals = digits - 1 - floor(log10(abs(value)))
    text = f"{value:.{max(decimals, 0)}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", "−")


def ratio(quartiles: Sequence[float]) -> str:
    """The median, with the quartiles beside it."""
    lower, middle, upper = quartiles
    return f"{middle:.3f} ({lower:.3f}–{upper:.3f})"


def micro(quartiles: Sequence[float]) -> str:
    return number(1e6 * quartiles[1])


def milli(quartiles: Sequence[float]) -> str:
    return number(1e3 * quartiles[1])


def mebibytes(count: float | None) -> str:
    return MISSING if count is None else number(count / 2**20)


def by_name(timings: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {one["name"]: one for one in timings}


def notes(remarks: Mapping[str, str]) -> str:
    """What a reader should know of a contender, as a list after a table."""
    lines = [f"- {name}: {remark}." for name, remark in remarks.items()]
    return "\n" + "\n".join(lines) + "\n" if lines else ""
