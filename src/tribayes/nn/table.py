"""The learned posterior as a small table: one row per tensor, as in the paper's Tables II and V."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tribayes._text import format_table


@dataclass(frozen=True)
class PosteriorRow:
    """One tensor: its name and shape, its K weights, its τ and ρ."""

    name: str
    shape: tuple[int, ...]
    K: int
    tau: float
    rho: float


@dataclass(frozen=True)
class PosteriorTable:
    """What `BayesianModule.posterior()` returns. Prints as a table, iterates over its rows."""

    rows: tuple[PosteriorRow, ...]

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """name → {"shape", "K", "tau", "rho"}."""
        return {row.name: {k: v for k, v in asdict(row).items() if k != "name"} for row in self.rows}

    def __iter__(self) -> Iterator[PosteriorRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        body = [[r.name, "×".join(map(str, r.shape)), r.K, r.tau, r.rho] for r in self.rows]
        return format_table(["tensor", "shape", "K", "tau", "rho"], body)
