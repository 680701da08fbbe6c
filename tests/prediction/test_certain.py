"""The paper's "quite certain": the label's credible interval overlaps no other class's. Touching is overlapping."""

import pytest
import torch
from torch import Tensor

from tests.prediction import brute
from tests.prediction.models import dirichlet, predictive
from tribayes.prediction.source import certain


def of_boxes(*boxes: tuple[float, float], label: int = 0) -> bool:
    """The decision for one example, from an interval a class."""
    lower, upper = (torch.tensor([[box[i] for box in boxes]]) for i in (0, 1))
    return bool(certain(lower, upper, torch.tensor([label])))


def from_clear_to_unclear(count: int) -> Tensor:
    """(count, 300, 3): networks that vary about examples of all kinds."""
    mixed = dirichlet(count, 300, 3, seed=count, concentration=2.0) + 1.5 * dirichlet(1, 300, 3, concentration=0.3)
    return mixed / mixed.sum(-1, keepdim=True)


@pytest.mark.parametrize("count", [2, 9, 100])
@pytest.mark.parametrize("level", [0.1, 0.5, 0.95])
def test_decisions_are_the_brute_force_ones(count: int, level: float) -> None:
    samples = from_clear_to_unclear(count)
    pred = predictive(samples)
    labels = [brute.label(row) for row in pred.mean.tolist()]
    expected = brute.certain(*brute.interval(samples.numpy(), level), labels)
    assert pred.label.tolist() == labels
    assert pred.certain(level).tolist() == expected
    assert 0 < sum(expected) < 300  # both decisions occur


def test_ties_everywhere_are_decided_as_by_brute_force() -> None:
    """Probabilities in eighths, bounds at the second and fourth of five: equal and touching bounds are the rule."""
    generator = torch.Generator().manual_seed(3)
    samples = torch.randint(9, (5, 500, 3), generator=generator, dtype=torch.float64) / 8
    pred = predictive(samples)
    lower, upper = brute.interval(samples.numpy(), 0.5)
    labels = [brute.label(row) for row in pred.mean.tolist()]
    decisions = brute.certain(lower, upper, labels)
    assert pred.label.tolist() == labels
    assert pred.certain(0.5).tolist() == decisions
    own = [lower[n, label] for n, label in enumerate(labels)]
    assert any(own[n] in upper[n] for n in range(500) if not decisions[n])  # some do touch


def test_separate_intervals_are_certain() -> None:
    assert of_boxes((0.6, 0.9), (0.1, 0.3), (0.0, 0.2))


def test_intervals_that_touch_overlap() -> None:
    assert not of_boxes((0.5, 0.9), (0.1, 0.5))
    assert of_boxes((torch.nextafter(torch.tensor(0.5), torch.tensor(1.0)).item(), 0.9), (0.1, 0.5))


def test_one_overlap_among_many_classes_is_enough() -> None:
    assert not of_boxes((0.5, 0.9), (0.1, 0.2), (0.1, 0.6), (0.0, 0.1))


def test_others_may_overlap_among_themselves() -> None:
    assert of_boxes((0.6, 0.9), (0.1, 0.4), (0.2, 0.5))


def test_an_interval_inside_the_labels_or_around_it_overlaps() -> None:
    assert not of_boxes((0.2, 0.9), (0.4, 0.5))
    assert not of_boxes((0.4, 0.5), (0.2, 0.9))


def test_an_interval_wholly_above_the_labels_does_not_overlap_it() -> None:
    assert of_boxes((0.3, 0.4), (0.5, 0.6))


def test_the_label_is_not_compared_with_itself() -> None:
    assert of_boxes((0.1, 0.2), (0.6, 0.9), label=1)
    assert not of_boxes((0.1, 0.7), (0.6, 0.9), label=1)


def test_one_network_cannot_say_how_certain_it_is() -> None:
    """A single sample has intervals of no width: almost everything would be quite certain."""
    pred = predictive(torch.tensor([[[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.2, 0.4, 0.4]]]))
    text = r"^`samples` \(=1\) must be at least 2 to tell certain from uncertain; a single network"
    with pytest.raises(ValueError, match=text):
        pred.certain()
    with pytest.raises(ValueError, match=text):
        pred.summary(torch.tensor([0, 0, 0]))


def test_a_wider_level_is_never_more_certain() -> None:
    pred = predictive(from_clear_to_unclear(50))
    narrow, wide = pred.certain(0.5), pred.certain(0.99)
    assert (narrow | ~wide).all()
    assert narrow.sum() > wide.sum()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("classes", [2, 3, 8, 11])
def test_the_label_among_equals_is_the_smallest_index(classes: int, dtype: torch.dtype) -> None:
    pred = predictive(torch.full((4, 3, classes), 1 / classes, dtype=dtype))
    assert pred.label.tolist() == [0, 0, 0]


@pytest.mark.parametrize("examples", [1, 5, 13])
@pytest.mark.parametrize("classes", [2, 3, 7])
def test_classes_that_are_equal_in_every_sample_have_equal_means(examples: int, classes: int) -> None:
    """torch sums columns in an order that depends on their place; the label must not depend on that."""
    one: Tensor = dirichlet(37, examples, 2)[..., :1].float()
    pred = predictive(one.expand(-1, -1, classes).contiguous())
    assert torch.equal(pred.mean, pred.mean[:, :1].expand(-1, classes))
    assert (pred.label == 0).all()
