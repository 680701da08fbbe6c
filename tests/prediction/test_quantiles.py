"""Quantiles and credible intervals are the brute-force ones, for any number of samples and any shape."""

import numpy as np
import pytest
import torch

from tests.prediction import brute
from tests.prediction.models import dirichlet, predictive
from tribayes.prediction import source as module
from tribayes.prediction.source import quantiles, tails

LEVELS = (0.01, 0.5, 0.9, 0.95, 0.99, 0.999999)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("count", [1, 2, 3, 20, 200])
def test_intervals_are_the_brute_force_ones(count: int, level: float) -> None:
    samples = dirichlet(count, 5, 4)
    expected = brute.interval(samples.numpy(), level)
    for bound, by_hand in zip(predictive(samples).interval(level), expected, strict=True):
        np.testing.assert_allclose(bound.numpy(), by_hand, rtol=1e-12, atol=1e-15)


def test_an_interval_of_200_samples_lies_between_the_order_statistics_that_the_module_names() -> None:
    lower, upper = predictive(torch.arange(1, 201, dtype=torch.float64).reshape(200, 1, 1)).interval(0.95)
    assert lower.item() == pytest.approx(5 + 0.975, abs=1e-12)
    assert upper.item() == pytest.approx(195 + 0.025, abs=1e-12)


def test_one_sample_is_its_own_interval() -> None:
    samples = dirichlet(1, 5, 4)
    for bound in predictive(samples).interval(0.95):
        assert torch.equal(bound, samples[0])


def test_two_samples_are_interpolated() -> None:
    samples = torch.tensor([[[0.75]], [[0.25]]], dtype=torch.float64)
    lower, upper = predictive(samples).interval(0.5)
    assert (lower.item(), upper.item()) == (0.375, 0.625)


def test_quantiles_are_numpys() -> None:
    samples = dirichlet(37, 6, 3)
    probabilities = (0.0, 0.1, 0.5, 0.77, 1.0)
    expected = np.quantile(samples.numpy(), probabilities, axis=0)
    np.testing.assert_allclose(quantiles(samples, probabilities).numpy(), expected, rtol=1e-13)


def test_equal_samples_give_that_value_to_the_bit() -> None:
    samples = torch.full((7, 2, 3), 0.1, dtype=torch.float32)
    for bound in predictive(samples).interval(0.9):
        assert torch.equal(bound, samples[0])


@pytest.mark.parametrize("entries", [1, 60, 100])
def test_blocks_of_examples_do_not_change_a_bit(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = dirichlet(20, 11, 3)
    whole = quantiles(samples, (0.03, 0.6))
    monkeypatch.setattr(module, "_ENTRIES_AT_ONCE", entries)
    assert torch.equal(quantiles(samples, (0.03, 0.6)), whole)


def test_more_entries_than_torch_quantile_takes() -> None:
    """17 million, one sorted column that is known: torch.quantile refuses 2²⁴ and more."""
    samples = torch.arange(1001, dtype=torch.float32).reshape(-1, 1, 1).expand(-1, 17_000, 1)
    assert torch.equal(quantiles(samples, (0.25,)), torch.full((1, 17_000, 1), 250.0))


@pytest.mark.parametrize("level", LEVELS)
def test_tails_leave_the_level_between_them(level: float) -> None:
    lower, upper = tails(level)
    assert upper - lower == pytest.approx(level, abs=1e-15)
    assert lower == pytest.approx(1 - upper, abs=1e-15)
