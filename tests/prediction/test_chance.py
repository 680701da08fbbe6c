"""Beyond chance or not: exact small cases, and how often a right prediction is blamed."""

from __future__ import annotations

import math

import pytest
import torch

import tribayes as tb
from tests.prediction.models import normal_bound
from tribayes.prediction.chance import RARE, binomial_chance, confidence_remarks, coverage_remarks
from tribayes.prediction.predictive import ClassPredictive
from tribayes.prediction.samples import Drawn
from tribayes.prediction.source import Kept
from tribayes.prediction.summary import ClassificationSummary, Coverage, RegressionSummary


@pytest.mark.parametrize(
    ("hits", "trials", "probability"), [(0, 10, 0.5), (3, 10, 0.5), (10, 10, 0.9), (57, 60, 0.95), (1, 1, 0.99)]
)
def test_the_chance_is_that_of_the_binomial_distribution(hits: int, trials: int, probability: float) -> None:
    chances = [math.comb(trials, k) * probability**k * (1 - probability) ** (trials - k) for k in range(trials + 1)]
    expected = min(1.0, 2 * min(sum(chances[: hits + 1]), sum(chances[hits:])))
    assert binomial_chance(hits, trials, probability) == pytest.approx(expected, rel=1e-9)


def test_right_intervals_are_hardly_ever_blamed() -> None:
    """At most once in a hundred; 5,000 repetitions, failing by chance once in 10⁶."""
    source = torch.Generator().manual_seed(0)
    hits = torch.binomial(torch.full((5000,), 200.0), torch.full((5000,), 0.95), generator=source)
    blamed = sum(bool(coverage_remarks(0.95, float(count) / 200, 200)) for count in hits)
    assert blamed <= 5000 * RARE + normal_bound(1e-6) * math.sqrt(5000 * RARE)


def test_right_confidence_is_blamed_once_in_a_hundred() -> None:
    """5,000 repetitions of 300 labels, failing by chance once in 10⁶."""
    source = torch.Generator().manual_seed(1)
    confidence = 0.5 + 0.5 * torch.rand(5000, 300, generator=source)
    correct = torch.rand(5000, 300, generator=source) < confidence
    blamed = sum(bool(confidence_remarks(p, right)) for p, right in zip(confidence, correct, strict=True))
    assert abs(blamed - 5000 * RARE) <= normal_bound(1e-6) * math.sqrt(5000 * RARE)


@pytest.mark.parametrize(("confidence", "count"), [(0.995, 20), (0.999, 100), (0.9999, 1000)])
def test_labels_that_are_nearly_sure_are_not_blamed_for_one_error(confidence: float, count: int) -> None:
    """One error among them is no rarity: exactly, the labels that claim so are blamed at most once in a hundred."""
    claims = torch.full((count,), confidence, dtype=torch.float64)
    blamed = [bool(confidence_remarks(claims, torch.arange(count) >= wrong)) for wrong in range(6)]
    chances = [math.comb(count, k) * (1 - confidence) ** k * confidence ** (count - k) for k in range(6)]
    assert blamed[-1]
    assert sum(chance for chance, blame in zip(chances, blamed, strict=True) if blame) <= RARE


def test_every_label_counts_with_the_probability_it_claims() -> None:
    """The exact distribution of a sum of coins, beside one put together coin by coin."""
    heads = torch.rand(37, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    law = torch.ones(1, dtype=torch.float64)
    for head in heads:
        law = torch.cat([law * (1 - head), law.new_zeros(1)]) + torch.cat([law.new_zeros(1), law * head])
    order = torch.arange(37)
    for right in range(38):
        chance = min(1.0, 2 * float(min(law[: right + 1].sum(), law[right:].sum())))
        assert bool(confidence_remarks(heads, order < right)) == (chance < RARE)


@pytest.mark.parametrize("together", [1, 5, 100])
@pytest.mark.parametrize("claim", [0.7, 0.99])
def test_pixels_that_err_together_are_not_blamed(together: int, claim: float) -> None:
    """50 images of 100 pixels, so many of them right or wrong at once, as often as they claim; 1,000 repetitions.

    At most once in a hundred; failing by chance once in 10⁶.
    """
    source, example = torch.Generator().manual_seed(3), torch.arange(50).repeat_interleave(100)
    blamed = 0
    for _ in range(1000):
        right = torch.rand(50 * 100 // together, generator=source) < claim
        blamed += bool(confidence_remarks(torch.full((5000,), claim), right.repeat_interleave(together), example))
    assert blamed <= 1000 * RARE + normal_bound(1e-6) * math.sqrt(1000 * RARE)


def test_pixels_that_are_too_sure_are_told_so() -> None:
    truth = torch.arange(30 * 4 * 4).reshape(30, 4, 4) % 5 == 0  # a fifth is wrong, in every image
    sure, origin = torch.tensor([0.99, 0.01]).expand(8, 30, 4, 4, 2), Drawn(0, tuple(range(8)))
    pred = ClassPredictive(Kept(sure), origin)
    (remark,) = pred.summary(truth.long()).remarks
    assert "too sure of itself" in remark
    one = ClassPredictive(Kept(sure[:, :1]), origin)
    assert one.summary(truth[:1].long()).remarks == ()  # of a single image nobody knows how its pixels hang together


@pytest.mark.parametrize(("covered", "word"), [(0.57, "narrow"), (1.0, "wide")])
def test_intervals_that_miss_their_level_are_named(covered: float, word: str) -> None:
    summary = RegressionSummary(442, 200, 1.0, -1.0, {0.95: Coverage(covered, 2.0), 0.5: Coverage(0.5, 1.0)})
    (remark,) = summary.remarks
    assert f"too {word}; tribayes.calibrate" in remark
    assert str(summary).endswith(remark)


def test_few_examples_excuse_much() -> None:
    assert coverage_remarks(0.95, 0.8, 10) == []
    assert coverage_remarks(0.95, 0.8, 100) != []


def test_a_classifier_that_is_too_sure_is_told_so() -> None:
    mean = torch.tensor([[0.99, 0.01]]).expand(500, 2)
    targets = (torch.arange(500) % 10 == 0).long()
    summary = ClassificationSummary.of(mean, targets, {}, torch.zeros(500), None)
    assert "too sure of itself" in summary.remarks[0]
    assert str(summary).endswith(summary.remarks[0])
    assert ClassificationSummary.from_dict(summary.as_dict()) == summary


def test_certainty_itself_is_no_division_by_zero() -> None:
    sure = torch.ones(20)
    assert confidence_remarks(sure, sure.bool()) == []
    assert confidence_remarks(sure, torch.arange(20) > 0) != []


def test_stored_remarks_that_are_no_sentences_are_refused() -> None:
    summary = ClassificationSummary.of(torch.tensor([[0.9, 0.1]]), torch.tensor([0]), {}, torch.zeros(1), None)
    with pytest.raises(TypeError, match=r"`remarks` \(=\[1\]\) must be a list of sentences"):
        ClassificationSummary.from_dict(summary.as_dict() | {"remarks": [1]})


def test_the_summary_of_a_prediction_says_it() -> None:
    model = tb.to_bayesian(torch.nn.Linear(1, 1), tau=1e-3)
    x = torch.randn(300, 1)
    pred = tb.predict(model, x, 20, likelihood=tb.Gaussian(noise=0.1), progress=False)
    assert "too narrow" in str(pred.summary(model.module(x).detach() + torch.randn(300, 1)))
