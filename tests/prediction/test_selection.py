"""The examples that are shown are those of the rule, and of equals the first."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.plots.cases import constant_classes, noisy_targets, random_classes
from tribayes.prediction import ClassPredictive
from tribayes.prediction.classification import confidently_wrong, telling_examples
from tribayes.prediction.samples import Drawn
from tribayes.prediction.source import Kept


def spread_classes(rows: list[list[float]], spread: list[float]) -> ClassPredictive:
    """Two networks that are ± a row's spread apart about its first two classes."""
    mean, apart = torch.tensor(rows), torch.tensor(spread).unsqueeze(-1) * torch.tensor([1.0, -1.0, 0.0])
    return ClassPredictive(Kept(torch.stack([mean + apart, mean - apart])), Drawn(0, (0, 1)))


SIX = spread_classes(
    [
        [0.97, 0.02, 0.01],  # sure, smallest entropy
        [0.90, 0.05, 0.05],  # sure, the median
        [0.80, 0.10, 0.10],  # sure, largest entropy
        [0.50, 0.45, 0.05],  # uncertain: the second class has most probability of all
        [0.36, 0.34, 0.30],  # uncertain, largest entropy
        [0.35, 0.32, 0.33],  # certain, for all its entropy
    ],
    [0.0, 0.0, 0.0, 0.2, 0.2, 0.0],
)


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        ([0, 0, 0, 1, 2, 1], {"sure": 1, "two-way": 3, "hopeless": 4}),
        ([0, 0, 0, 1, 0, 0], {"sure": 2, "two-way": 3}),  # 4 is right: it is no example of an error
        ([1, 1, 1, 0, 0, 0], {"sure": 5}),  # all errors are quite certain
        ([0, 0, 0, 2, 1, 0], {"sure": 2, "two-way": 4, "hopeless": 3}),  # the true class counts, not the second one
    ],
)
def test_examples_are_chosen_by_the_rule(targets: list[int], expected: dict[str, int]) -> None:
    assert telling_examples(SIX, torch.tensor(targets)) == expected


def test_where_nothing_is_wrong_the_uncertain_are_taken() -> None:
    assert telling_examples(SIX, torch.zeros(6).long()) == {"sure": 2, "two-way": 3, "hopeless": 4}


def test_the_smaller_number_wins_among_equals() -> None:
    rows = [[0.5, 0.45, 0.05], [0.9, 0.05, 0.05]]
    twice = spread_classes(rows * 3, [0.2, 0.0] * 3)
    for targets in ([1, 0] * 3, [0, 0] * 3):
        assert telling_examples(twice, torch.tensor(targets)) == {"sure": 3, "two-way": 0, "hopeless": 2}


def test_kinds_that_do_not_occur_are_left_out() -> None:
    sure = constant_classes([[0.9, 0.1]])
    assert telling_examples(sure, torch.tensor([0])) == {"sure": 0}
    assert telling_examples(sure, torch.tensor([1])) == {}
    unsure = random_classes(sharpness=0.01)
    assert sorted(telling_examples(unsure, unsure.label)) == ["hopeless", "two-way"]


@pytest.mark.parametrize("number", [1, 2, 60])
def test_the_three_examples_differ(number: int) -> None:
    pred = random_classes(examples=number, sharpness=1.0)
    for targets in (pred.label, noisy_targets(pred)):
        chosen = telling_examples(pred, targets)
        assert len(set(chosen.values())) == len(chosen) <= number


def test_the_level_decides_what_is_certain() -> None:
    """At 10 % the interval of each class is 0.04 wide, and those of 0.5 and 0.45 are apart."""
    pred, targets = spread_classes([[0.5, 0.45, 0.05]], [0.2]), torch.tensor([1])
    assert telling_examples(pred, targets, level=0.1) == {}
    assert confidently_wrong(pred, targets, level=0.1) == [0]
    assert telling_examples(pred, targets, level=0.95) == {"two-way": 0}
    assert confidently_wrong(pred, targets, level=0.95) == []


def by_hand(pred: ClassPredictive, targets: Tensor, level: float) -> list[int]:
    sure = pred.certain(level).tolist()
    found = [i for i in range(len(pred)) if int(pred.label[i]) != int(targets[i]) and sure[i]]
    return sorted(found, key=lambda i: (-float(pred.confidence[i]), i))


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_confidently_wrong_are_wrong_and_certain_the_most_confident_first(level: float) -> None:
    pred = random_classes(sharpness=8)
    targets = noisy_targets(pred)
    assert confidently_wrong(pred, targets, level) == by_hand(pred, targets, level)
    assert len(by_hand(pred, targets, level)) > 3


def test_confidently_wrong_of_equals_the_first_comes_first() -> None:
    pred = constant_classes([[0.6, 0.4], [0.9, 0.1], [0.9, 0.1], [0.7, 0.3]])
    assert confidently_wrong(pred, torch.ones(4).long()) == [1, 2, 3, 0]
    assert confidently_wrong(pred, torch.zeros(4).long()) == []


def test_bad_targets_are_refused_by_name() -> None:
    for choose in (telling_examples, confidently_wrong):
        with pytest.raises(ValueError, match=r"`targets` .* must have the shape \(6,\), one per example"):
            choose(SIX, torch.zeros(3).long())
        with pytest.raises(ValueError, match=r"`level` \(=1.5\) must lie strictly between 0 and 1"):
            choose(SIX, torch.zeros(6).long(), level=1.5)
