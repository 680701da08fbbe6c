"""Figures as text: one way to write a number for every table."""

from __future__ import annotations

from tribayes.experiments.spread import Spread

NOT_RUN = "not run"


def number(value: Spread | float | None, digits: int = 4) -> str:
    """ "0.0213 ± 0.0008", "0.0213" for a single seed or a plain number, "not run"."""
    return NOT_RUN if value is None else _written(value, digits, 1)


def percent(value: Spread | float | None, digits: int = 2) -> str:
    """The same of a share, "0.70 ± 0.03 %"."""
    return NOT_RUN if value is None else f"{_written(value, digits, 100)} %"


def counted(value: Spread | float | None) -> str:
    """The same of a count: "9,668", "9,668.3 ± 4.2"."""
    if isinstance(value, Spread) and value.std is None:
        value = value.mean
    return number(value, 0 if isinstance(value, int | float) and value == round(value) else 1)


def _written(value: Spread | float, digits: int, scale: float) -> str:
    if not isinstance(value, Spread):
        return minus(f"{scale * value:,.{digits}f}")
    mean = minus(f"{scale * value.mean:,.{digits}f}")
    return mean if value.std is None else f"{mean} ± {scale * value.std:,.{digits}f}"


def minus(text: str) -> str:
    """With the minus sign of a printed page."""
    return text.replace("-", "−")
