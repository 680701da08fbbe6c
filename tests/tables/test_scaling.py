"""Columns in units of their own spread."""

from __future__ import annotations

import pytest
import torch

from tribayes.tables.scaling import Scaling, rows_of


def test_columns_have_mean_zero_and_spread_one_and_come_back() -> None:
    rows = torch.randn(50, 3, dtype=torch.float64) * torch.tensor([1e-6, 1.0, 1e6]) + 1e3
    scaling = Scaling.of(rows)
    scaled = scaling.into(rows)
    torch.testing.assert_close(scaled.mean(0), torch.zeros(3).double(), atol=1e-6, rtol=0)
    torch.testing.assert_close(scaled.square().mean(0), torch.ones(3).double(), rtol=1e-6, atol=0)
    torch.testing.assert_close(scaling.back(scaled), rows)


def test_a_column_that_never_changes_is_only_shifted() -> None:
    constant = torch.full((7, 1), 0.1)  # whose mean is not exactly 0.1 in floating point
    scaling = Scaling.of(constant)
    assert scaling.spread.tolist() == [1.0]
    torch.testing.assert_close(scaling.into(torch.full((1, 1), 2.1)), torch.tensor([[2.0]]).double(), atol=1e-6, rtol=0)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_a_spread_that_cannot_be_computed_with_is_refused(size: float) -> None:
    """Its square is 0 or infinite, and everything became one value, or was predicted to be infinite."""
    count = torch.arange(5, dtype=torch.float64)
    rows = torch.stack([count, count * size], dim=1)
    with pytest.raises(ValueError, match=r"`targets` \(='column 1'\) must have spreads whose squares .*; rescale that"):
        Scaling.of(rows, "targets")


def test_values_become_rows() -> None:
    assert rows_of(torch.zeros(4)).shape == (4, 1)
    assert rows_of(torch.zeros(4, 2)).shape == (4, 2)
