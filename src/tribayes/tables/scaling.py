"""Columns in units of their own spread: networks learn best there, and what they say is brought back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tribayes._errors import refusal, wrong_type

DTYPE = torch.float64  # so that a row's answer does not depend on the rows beside it; small networks lose no time by it


@dataclass(frozen=True)
class Scaling:
    """Mean and standard deviation of each column, (D,); a column that never changes has the spread 1.

    Example:
        >>> scaling = Scaling.of(torch.tensor([[0.0, 5.0], [2.0, 5.0]]))
        >>> scaling.into(torch.tensor([[4.0, 5.0]])).tolist(), scaling.back(torch.zeros(1, 2)).tolist()
        ([[3.0, 0.0]], [[1.0, 5.0]])
    """

    mean: Tensor
    spread: Tensor

    @classmethod
    def of(cls, rows: Tensor, name: str = "rows") -> Scaling:
        """That of a table (N, D), which a refusal calls by its name."""
        rows = rows.to(DTYPE)
        mean, spread = rows.mean(0), rows.std(0, correction=0)
        lost = ~spread.isfinite() | ((spread == 0) & (rows != rows[0]).any(0))  # its square is beyond all numbers
        if lost.any():
            column = int(lost.nonzero()[0])
            requirement = "have spreads whose squares are neither 0 nor infinite"
            raise refusal(name, f"column {column}", requirement, "rescale that column")
        constant = spread <= 1e-12 * mean.abs()  # what is left of rounding is no spread
        return cls(mean, spread.masked_fill(constant, 1.0))

    def into(self, rows: Tensor) -> Tensor:
        """Rows in these units."""
        if not isinstance(rows, Tensor) or rows.is_complex():
            raise wrong_type("rows", rows, "be a tensor of real numbers", "pass torch.from_numpy(rows)")
        if rows.ndim != 2 or rows.shape[1] != len(self.mean):
            requirement = f"have the shape (N, {len(self.mean)}), as the table that was learned"
            raise refusal("rows", rows, requirement, "pass the same columns, in the same order")
        return (rows.to(DTYPE) - self.mean) / self.spread

    def back(self, rows: Tensor) -> Tensor:
        """Rows in these units as they were."""
        return rows * self.spread + self.mean


def rows_of(targets: Tensor) -> Tensor:
    """Values as rows: (N,) as (N, 1)."""
    if not isinstance(targets, Tensor):
        raise wrong_type("targets", targets, "be a tensor", "pass torch.from_numpy(targets)")
    return targets.unsqueeze(-1) if targets.ndim == 1 else targets
