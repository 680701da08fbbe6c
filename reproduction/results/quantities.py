"""Single figures of a result, by name: what tables, targets and verdicts are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reproduction.results.result_files import Result

Quantity = Callable[[Result], float | None]


def score(name: str) -> Quantity:
    """A number of the evaluation, such as "error" or "nll"; None where this run has none."""
    return lambda result: result.evaluation.get(name)


def count(level: str, kind: str) -> Quantity:
    """A count of the table of certain and uncertain predictions, such as ("0.95", "wrong_certain")."""
    return lambda result: result.evaluation.get("certain", {}).get(level, {}).get(kind)


def posterior(tensor: str, parameter: str) -> Quantity:
    """ "tau" or "rho" of a tensor."""
    return lambda result: next(
        (row[parameter] for row in result.evaluation.get("posterior", []) if row["name"] == tensor), None
    )


def scaled(figure: Quantity, scale: Callable[[float], float]) -> Quantity:
    """A figure on another scale, such as its logarithm."""

    def on_scale(result: Result) -> float | None:
        value = figure(result)
        return None if value is None else scale(value)

    return on_scale


def foreign(name: str, level: str | None = None) -> Quantity:
    """A number of the answers to foreign images, by level where it has levels."""

    def figure(result: Result) -> float | None:
        value: Any = (result.ood or {}).get(name)
        return value if level is None or value is None else value.get(level)

    return figure


def scatter(name: str) -> Quantity:
    """ "absolute" or "relative" spread of the loss along the training."""
    return lambda result: result.smoothness[name]
