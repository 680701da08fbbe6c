"""Figures by identities that hold exactly."""

import doctest
import math

import pytest
import torch
from torch import Tensor

from benchmarks.modern import figures as made


def answers(count: int = 200, classes: int = 4, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Probabilities and labels drawn from them: calibrated by construction."""
    source = torch.Generator().manual_seed(seed)
    probabilities = (2 * torch.randn(count, classes, generator=source)).softmax(-1)
    return probabilities, torch.multinomial(probabilities, 1, generator=source).squeeze(-1)


def test_examples_in_docstrings() -> None:
    result = doctest.testmod(made, optionflags=doctest.ELLIPSIS)
    assert result.attempted > 3
    assert result.failed == 0


def test_scores_of_a_fair_coin() -> None:
    coins, labels = torch.full((6, 2), 0.5), torch.tensor([0, 1, 0, 1, 0, 1])
    expected = {"error": 0.5, "nll": math.log(2), "ece": 0.0, "brier": 0.5}
    assert made.scores(coins, labels) == pytest.approx(expected)


def test_counts_come_with_samples_and_scaling_with_a_temperature() -> None:
    probabilities, labels = answers(20)
    plain = made.figures(probabilities, labels)
    assert "certain" not in plain
    assert "scaled" not in plain
    full = made.figures(probabilities, labels, probabilities.expand(5, -1, -1), temperature=1.0)
    right = round(20 * (1 - full["error"]))
    assert full["certain"]["correct_certain"] == right  # samples that agree are certain
    assert full["certain"]["wrong_certain"] == 20 - right
    assert full["scaled"] == pytest.approx(made.scores(probabilities, labels), rel=1e-5)
    assert made.figures(probabilities, probabilities.argmax(-1))["auroc_errors"] is None


def test_temperature_undoes_what_was_done() -> None:
    probabilities, labels = answers(2000)
    best = made.best_temperature(probabilities, labels)
    for factor in (0.5, 3.0):
        changed = made.scaled(probabilities, factor)
        assert made.best_temperature(changed, labels) == pytest.approx(best / factor, rel=1e-4)
        assert torch.equal(changed.argmax(-1), probabilities.argmax(-1))


def test_the_best_temperature_is_a_minimum() -> None:
    probabilities, labels = answers()
    best = made.best_temperature(probabilities, labels)

    def nll(temperature: float) -> float:
        return made.scores(made.scaled(probabilities, temperature), labels)["nll"]

    assert nll(best) < min(nll(0.99 * best), nll(1.01 * best))


def test_foreign_images_that_surprise_are_told_apart() -> None:
    sure, unsure = torch.tensor([[0.9, 0.1]]).repeat(5, 1), torch.full((4, 2), 0.5)
    assert made.told_apart(sure, unsure) == {"entropy": 1.0}
    disagreeing = torch.stack([torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])]).repeat(1, 4, 1)
    both = made.told_apart(unsure, unsure, unsure.expand(2, -1, -1), disagreeing)
    assert both == {"entropy": 0.5, "epistemic": 1.0}  # the same means, but one by networks that differ


def test_people_beside_themselves() -> None:
    votes = answers()[0].double()
    found = made.beside_people(votes, votes)
    own_entropy = float(torch.special.entr(votes).sum(-1).mean())
    assert found["cross_entropy"] == pytest.approx(own_entropy, rel=1e-9)
    assert found["spearman"] == pytest.approx(1)


def test_spearman_knows_ranks_only() -> None:
    values = torch.tensor([3.0, 1.0, 2.0, 10.0])
    assert made.spearman(values, values.exp()) == pytest.approx(1)
    assert made.spearman(values, -values) == pytest.approx(-1)
    ties = torch.tensor([1.0, 1.0, 2.0, 3.0]), torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert made.spearman(*ties) == pytest.approx(3 / math.sqrt(10))  # ranks ½ ½ 2 3 beside 0 1 2 3: 4.5 / √(4.5 · 5)
    assert math.isnan(made.spearman(values, torch.ones(4)))


def test_corruptions_are_averaged_by_kind_and_over_all() -> None:
    each = {("fog", 1): {"nll": 1.0}, ("fog", 2): {"nll": 3.0}, ("snow", 1): {"nll": 5.0}}
    assert made.over_corruptions(each) == {"mean": {"nll": 3.0}, "fog": {"nll": 2.0}, "snow": {"nll": 5.0}}


def test_an_ensemble_of_equal_members_is_one_member() -> None:
    (probabilities, labels), (held_out, held_labels) = answers(), answers(seed=1)
    equal = made.ensemble_log_likelihoods(
        probabilities.expand(3, -1, -1), labels, held_out.expand(3, -1, -1), held_labels
    )
    single = made.calibrated_log_likelihood(probabilities, labels, held_out, held_labels)
    assert equal == pytest.approx([single] * 3, rel=1e-5)


def test_the_members_of_an_ensemble_may_come_in_another_order_of_the_circle() -> None:
    members = torch.stack([answers(seed=seed)[0] for seed in range(4)])
    labels = answers()[1]
    first = made.ensemble_log_likelihoods(members, labels, members, labels)
    turned = made.ensemble_log_likelihoods(members.roll(1, 0), labels, members.roll(1, 0), labels)
    assert first == pytest.approx(turned, rel=1e-5)
    assert len(first) == 4


def test_an_ensemble_equals_as_many_networks_as_it_has() -> None:
    growth = [-0.20, -0.16, -0.15, -0.145]
    assert [made.equivalent(value, growth) for value in growth] == [1, 2, 3, 4]
    assert made.equivalent(-0.155, growth) == pytest.approx(2.5)
    assert (made.equivalent(-1, growth), made.equivalent_text(-1, growth)) == (1, "<1")
    assert (made.equivalent(0, growth), made.equivalent_text(0, growth)) == (4, ">4")
    assert made.equivalent(-0.18, [-0.20, -0.16, -0.17]) == pytest.approx(1.5)
    assert made.equivalent_text(-0.165, [-0.20, -0.16, -0.17]) == "1.9"
    with pytest.raises(ValueError, match="`ensemble_lls` is empty"):
        made.equivalent(-0.1, [])


def test_paired_differences_ignore_what_seeds_share() -> None:
    other = {0: 10.0, 1: -4.0, 2: 7.0}
    one = {seed: value - 0.5 for seed, value in other.items()}
    found = made.paired_difference(one | {9: 1.0}, other)
    assert (found.mean, found.lower, found.upper, found.seeds) == (-0.5, -0.5, -0.5, 3)
    assert found.clear
    alone = made.paired_difference({0: 1.0}, {0: 0.0})
    assert (alone.lower, alone.upper, alone.clear) == (-math.inf, math.inf, False)
    with pytest.raises(ValueError, match=r"the seeds \[1\] and \[2\] have none in common"):
        made.paired_difference({1: 0.0}, {2: 0.0})


def test_students_quantiles_are_scipys() -> None:
    stats = pytest.importorskip("scipy.stats")
    for freedom in (1, 2, 3, 4, 5, 10, 29, 100):
        for level in (0.5, 0.9, 0.95, 0.99):
            expected = stats.t.ppf((1 + level) / 2, freedom)
            assert made.student_quantile(level, freedom) == pytest.approx(expected, rel=1e-9)
