"""Conformal intervals and sets: their guarantee on simulated truth, exact ranks, and what is refused."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.prediction.models import normal_bound
from tribayes.prediction.predictive import ClassPredictive, RegressionPredictive
from tribayes.prediction.samples import Drawn
from tribayes.prediction.source import Kept

ORIGIN = Drawn(0, tuple(range(8)))


def values(mean: Tensor, spread: Tensor, noise: float = 0.1) -> RegressionPredictive:
    """A prediction of that mean and epistemic standard deviation, (N,) each."""
    pattern = torch.tensor([-1.0, 1.0] * 4).reshape(8, 1, 1)
    samples = mean.reshape(1, -1, 1) + pattern * spread.reshape(1, -1, 1)
    return RegressionPredictive(Kept(samples), ORIGIN, noise)


def classes(mean: Tensor) -> ClassPredictive:
    return ClassPredictive(Kept(mean.expand(8, *mean.shape)), ORIGIN)


def test_the_threshold_is_an_exact_rank() -> None:
    """⌈(n + 1) level⌉ of n = 19 at 0.95 is the largest, at 0.9 the next but one."""
    mean, spread = torch.zeros(19), torch.ones(19)
    pred = values(mean, spread, noise=1e-6)
    conformal = tb.conformalise(pred, torch.arange(1.0, 20.0))
    scale = float(pred.std[0])
    assert conformal.threshold(0.95) == pytest.approx(19 / scale)
    assert conformal.threshold(0.9) == pytest.approx(18 / scale)
    assert conformal.threshold(0.5) == pytest.approx(10 / scale)


def test_intervals_follow_the_posteriors_own_width() -> None:
    conformal = tb.conformalise(values(torch.zeros(39), torch.ones(39)), torch.linspace(-2, 2, 39))
    new = values(torch.tensor([0.0, 5.0]), torch.tensor([1.0, 3.0]))
    lower, upper = conformal.intervals(new, 0.9)
    torch.testing.assert_close((upper - lower) / new.std, torch.full((2, 1), 2 * conformal.threshold(0.9)))
    torch.testing.assert_close((upper + lower) / 2, new.mean)


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_intervals_cover_however_wrong_the_model_is(level: float) -> None:
    """A model whose mean and width are both wrong, 2,000 repetitions of 59 held-out examples and one new one.

    Covered with probability ⌈60 level⌉/60; the test fails by chance once in 10⁶.
    """
    source = torch.Generator().manual_seed(0)
    covered, repetitions = 0, 2000
    for _ in range(repetitions):
        x = torch.rand(60, generator=source)
        y = 3 * x + x * torch.randn(60, generator=source) + 1
        pred = values(torch.zeros(60), 0.05 + x)  # wrong by far, but knows where it knows less
        conformal = tb.conformalise(values(pred.mean[:59, 0], 0.05 + x[:59]), y[:59])
        lower, upper = conformal.intervals(values(pred.mean[59:, 0], 0.05 + x[59:]), level)
        covered += int(lower.item() <= y[59] <= upper.item())
    expected = math.ceil(60 * level - 1e-9) / 60
    deviation = math.sqrt(repetitions * expected * (1 - expected))
    assert abs(covered - repetitions * expected) <= normal_bound(1e-6) * deviation


@pytest.mark.parametrize("score", ["probability", "cumulative"])
def test_sets_hold_the_truth_as_often_as_they_promise(score: str) -> None:
    """Overconfident probabilities of four classes; never below the level, but for one chance in 10⁶."""
    source = torch.Generator().manual_seed(1)
    held = 0
    for _ in range(500):
        logits = torch.randn(100, 4, generator=source)
        y = torch.multinomial(logits.softmax(-1), 1, generator=source).squeeze(-1)
        mean = (3 * logits).softmax(-1)
        conformal = tb.conformalise(classes(mean[:99]), y[:99], score)
        held += int(conformal.sets(classes(mean[99:]), 0.9)[0, y[99]])
    assert held >= 450 - normal_bound(1e-6) * math.sqrt(500 * 0.9 * 0.1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_targets_on_the_border_are_inside(dtype: torch.dtype) -> None:
    """Yes or no as a number, of rows that look alike: the border is where half of them lie, but for rounding."""
    source, n = torch.Generator().manual_seed(2), 39
    y = (torch.arange(n) % 2).to(dtype)
    for mean, spread in torch.rand(300, 2, generator=source, dtype=dtype):
        pred = values((mean / 2).expand(n), (0.1 + spread).expand(n))
        lower, upper = tb.conformalise(pred, y).intervals(pred, 0.9)
        assert ((lower[:, 0] <= y) & (y <= upper[:, 0])).all()


def test_classes_are_taken_by_probability_or_until_enough_is_gathered() -> None:
    held_out = torch.tensor([[0.7, 0.2, 0.1]]).expand(9, 3)
    targets = torch.tensor([0, 0, 0, 0, 0, 0, 0, 0, 1])
    new = classes(torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.15, 0.75]]))
    by_probability = tb.conformalise(classes(held_out), targets)
    assert by_probability.threshold(0.9) == pytest.approx(0.8)  # all classes of at least 0.2
    assert by_probability.sets(new, 0.9).tolist() == [[True, True, True], [False, False, True]]
    gathered = tb.conformalise(classes(held_out), targets, "cumulative")
    assert gathered.threshold(0.9) == pytest.approx(0.7)  # classes before which at most 0.7 is gathered
    assert gathered.sets(new, 0.9).tolist() == [[True, True, False], [False, False, True]]


def test_no_set_is_empty() -> None:
    sure = torch.tensor([[0.99, 0.01]]).expand(9, 2)
    conformal = tb.conformalise(classes(sure), torch.zeros(9, dtype=torch.long))
    assert conformal.sets(classes(torch.tensor([[0.6, 0.4]])), 0.5).tolist() == [[True, False]]


def test_several_outputs_hold_together() -> None:
    """One threshold for all values of an example: the largest distance counts."""
    samples = torch.zeros(8, 9, 2)
    pred = RegressionPredictive(Kept(samples), ORIGIN, 1.0)
    targets = torch.stack([torch.arange(1.0, 10.0), torch.zeros(9)], -1)
    assert tb.conformalise(pred, targets).threshold(0.9) == pytest.approx(9.0)


def test_too_few_examples_for_a_level_are_said_so() -> None:
    conformal = tb.conformalise(values(torch.zeros(18), torch.ones(18)), torch.ones(18))
    with pytest.raises(ValueError, match=r"`level` \(=0.95\) must be at most 0.9474 with 18 held-out .* at least 19 "):
        conformal.threshold(0.95)


def test_what_does_not_fit_is_refused() -> None:
    numbers, kinds = values(torch.zeros(20), torch.ones(20)), classes(torch.full((20, 2), 0.5))
    of_values = tb.conformalise(numbers, torch.ones(20))
    of_classes = tb.conformalise(kinds, torch.zeros(20, dtype=torch.long))
    with pytest.raises(TypeError, match=r"`pred` .* must be a ClassPredictive; pass what tribayes.predict returned"):
        of_classes.sets(numbers)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"`pred` .* must be about classes, as the held-out examples were"):
        of_classes.intervals(numbers)
    with pytest.raises(ValueError, match=r"`pred` .* must be about values, as the held-out examples were"):
        of_values.sets(kinds)
    with pytest.raises(ValueError, match=r"`score` \(='best'\) must be one of"):
        tb.conformalise(kinds, torch.zeros(20, dtype=torch.long), "best")
    with pytest.raises(TypeError, match=r"`pred` .* must be a Predictive"):
        tb.conformalise(nn.Linear(2, 2), torch.ones(20))  # type: ignore[arg-type]


def test_it_prints_what_it_is() -> None:
    assert repr(tb.conformalise(values(torch.zeros(20), torch.ones(20)), torch.ones(20))) == (
        "Conformal('values', 20 held-out examples)"
    )
