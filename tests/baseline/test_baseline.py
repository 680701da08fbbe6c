"""Nothing was lost: the numbers of the code before its redesign, which `stored.json` holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.baseline import cases

STORED: dict[str, Any] = json.loads(Path(__file__).with_name("stored.json").read_text())
EVERY = 5  # steps between two stored losses


def test_divergences_and_their_gradients_are_the_same() -> None:
    found = cases.divergences()
    assert found.keys() == STORED["divergences"].keys()
    for name, expected in STORED["divergences"].items():
        assert found[name]["kl"] == pytest.approx(expected["kl"], rel=1e-12)
        for parameter, numbers in expected["gradients"].items():
            assert found[name]["gradients"][parameter] == pytest.approx(numbers, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("family", ["tridiagonal", "mean_field"])
def test_a_training_takes_the_same_path(family: str) -> None:
    """From the same random numbers, over 200 steps."""
    found = cases.losses(family, dtype=torch.float64)
    for ours, theirs in zip(found, STORED["losses"][family], strict=True):
        assert ours[::EVERY] == pytest.approx(theirs, rel=1e-7)


def test_a_diagonal_training_ends_at_the_same_height() -> None:
    """Its draws take one normal more per tensor than before, so they are others: the level is compared.

    Over the last 100 steps the losses scatter by about half their mean; ten standard errors leave no room for chance.
    """
    found = torch.tensor(cases.losses("diagonal", dtype=torch.float64)[0][100:])
    stored = torch.tensor(STORED["losses"]["diagonal"][0][20:])
    error = (found.var() / len(found) + stored.var() / len(stored)).sqrt()
    assert abs(found.mean() - stored.mean()) < 10 * error


def test_answers_have_the_same_mean() -> None:
    """Seeds name other streams than before. 18 means over 2,000 networks each: fails with probability below 1e-6."""
    found = cases.answers(seed=3, samples=2000)
    mean, std = (torch.tensor(STORED["answers"][name]) for name in ("mean", "std"))
    z = (found.mean(0) - mean) / (2 * std.square() / 2000).sqrt()
    assert z.abs().max() < 5.7
