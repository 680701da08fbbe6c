"""The training as a few numbers: a thinned curve, and how far the loss scatters along it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from tribayes._errors import refusal
from tribayes.runs import Record

POINTS = 100
COLUMNS = ("iteration", "loss", "loss_std", "nll", "nll_std", "one_sample_error")


def curve_of(records: Sequence[Record], points: int = POINTS) -> dict[str, Any]:
    """Column by column, at most `points` of the records: evenly spaced, the last always among them.

    Of τ and ρ the weights' are kept, `tensor → values`; the biases' hardly move.
    """
    chosen = _thinned(_checked(records), points)
    curve: dict[str, Any] = {name: [_short(getattr(record, name)) for record in chosen] for name in COLUMNS}
    tensors = [name for name in chosen[0].tau if not name.endswith("bias")]
    if tensors:
        curve["tau"] = {name: [_short(record.tau[name]) for record in chosen] for name in tensors}
        curve["rho"] = {name: [_short(record.rho[name]) for record in chosen] for name in tensors}
    return curve


def smoothness(records: Sequence[Record]) -> dict[str, float]:
    """How far the likelihood term scatters from step to step, in the records of the second half of the training.

    `absolute`: the median over these records of the standard deviation within one, nats. `relative`: the median of
    the standard deviation divided by the mean. The likelihood term is compared and not the loss, for only that all
    families have; within a record, at most 1,000 steps, the trend is negligible.
    """
    half = _checked(records)[-1].iteration / 2
    late = [record for record in records if record.iteration > half]
    return {
        "absolute": _short(statistics.median(record.nll_std for record in late)),
        "relative": _short(statistics.median(_relative(record) for record in late)),
        "records": len(late),
    }


def _relative(record: Record) -> float:
    return record.nll_std / record.nll if record.nll else 0.0  # a loss of exactly 0 does not scatter


def _checked(records: Sequence[Record]) -> Sequence[Record]:
    if not records:
        raise refusal("records", "none", "hold at least one", "train first")
    return records


def _thinned(records: Sequence[Record], points: int) -> list[Record]:
    if len(records) <= points:
        return list(records)
    last = len(records) - 1
    return [records[round(place * last / (points - 1))] for place in range(points)]


def _short(value: Any) -> Any:
    return value if value is None or isinstance(value, int) else float(f"{value:.4g}")
