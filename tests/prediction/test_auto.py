"""samples=AutoSamples(): doubles until label and certainty are stable, within a cap, and says how many it drew."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.prediction import brute
from tests.prediction.models import classifier, cut_chunks, dirichlet, inputs, predict, refused, regressor

TINY = 1e-3  # relative scale of weights whose networks agree on everything


def test_networks_that_agree_need_only_the_first_round() -> None:
    assert predict(classifier(tau=TINY), inputs(), tb.AutoSamples()).sample_count == 50


def test_networks_that_disagree_go_to_the_cap() -> None:
    """200 examples of which many are close calls; one of them changing is more than the tolerance."""
    auto = tb.AutoSamples(tolerance=0.001, cap=170)
    pred = predict(classifier(), inputs(200), auto)
    assert pred.sample_count == 170
    assert pred.sample_indices == tuple(range(170))


def test_its_samples_are_the_first_of_a_fixed_run() -> None:
    pred = predict(classifier(), inputs(50), tb.AutoSamples(tolerance=1e-6, cap=130), seed=4)
    fixed = predict(classifier(), inputs(50), 130, seed=4)
    assert torch.equal(pred.samples, fixed.samples)


def test_it_stops_where_the_rule_says() -> None:
    """The rule applied to the samples it drew: not satisfied one round before, satisfied at the end."""
    auto = tb.AutoSamples(tolerance=0.03, first=8, cap=4096)
    pred = predict(classifier(), inputs(100), auto)
    assert 8 < pred.sample_count < 4096
    assert auto.enough(pred.samples, classes=True)
    assert not auto.enough(pred.samples[: pred.sample_count // 2], classes=True)


class Steep(nn.Module):
    """Draws do not matter for large inputs, and much for small ones."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        with torch.no_grad():
            self.layer.weight.copy_(torch.tensor([[0.3], [0.2], [-0.2]]).expand(3, 4))
            self.layer.bias.fill_(0.01)

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x.mean(1, keepdim=True) > 20, torch.eye(3).double()[0], self.layer(x))


def test_the_first_chunk_decides_for_all_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """An easy chunk stops after 20 networks, and the hard one behind it gets no more, though it needs them."""
    easy, hard = torch.full((20, 4), 50.0, dtype=torch.float64), inputs(20)
    auto = tb.AutoSamples(tolerance=1e-6, first=20, cap=300)
    model = tb.to_bayesian(Steep().double(), tau=0.5)
    assert predict(model, hard, auto).sample_count > 20
    cut_chunks(monkeypatch, 20, samples=300)  # what the cap may need
    pred = predict(model, torch.cat([easy, hard]), auto)
    assert pred.samples.shape == (20, 40, 3)


def test_dropped_samples_are_counted_too() -> None:
    auto = tb.AutoSamples(tolerance=1e-6, cap=130)
    kept, dropped = (predict(classifier(), inputs(50), auto, keep_samples=keep) for keep in (True, False))
    assert dropped.sample_count == kept.sample_count == 130
    assert torch.equal(dropped.certain(), kept.certain())


def decisions(samples: np.ndarray, level: float) -> list[tuple[int, bool]]:
    labels = [brute.label(row) for row in samples.mean(0).tolist()]
    return list(zip(labels, brute.certain(*brute.interval(samples, level), labels), strict=True))


@pytest.mark.parametrize("level", [0.3, 0.95])
def test_stable_means_that_few_decisions_changed_since_half_of_the_samples(level: float) -> None:
    """Either side of the share that changed by brute force; the share itself is still stable."""
    samples = dirichlet(10, 200, 3, concentration=20) + 2 * dirichlet(1, 200, 3, concentration=0.4)
    samples = samples / samples.sum(-1, keepdim=True)
    before, after = (decisions(part.numpy(), level) for part in (samples[:5], samples))
    share = sum(old != new for old, new in zip(before, after, strict=True)) / 200
    assert 0 < share < 1
    for tolerance, stable in ((share, True), (share - 1e-9, False), (share + 1e-9, True)):
        assert tb.AutoSamples(tolerance, cap=100, level=level, first=2).enough(samples, classes=True) is stable


def test_certainty_alone_can_be_unstable() -> None:
    """The label stays, the first two networks agree exactly, the others spread until intervals overlap."""
    steady, spread = [[0.6, 0.4]], [[0.9, 0.1]]
    samples = torch.tensor([steady, steady, spread, [[0.35, 0.65]]])
    assert samples[:2].mean(0).argmax() == samples.mean(0).argmax()
    assert not tb.AutoSamples(0.5, first=2).enough(samples, classes=True)


def test_the_label_alone_can_be_unstable() -> None:
    samples = torch.tensor([[[0.6, 0.4]], [[0.6, 0.4]], [[0.0, 1.0]], [[0.0, 1.0]]])
    assert not tb.AutoSamples(0.5, first=2, level=1e-9).enough(samples, classes=True)


def test_regression_is_stable_when_its_bounds_hardly_move() -> None:
    """Mean move of the bounds relative to the mean width, by brute force."""
    samples = inputs(40).reshape(40, 2, 2)
    before, after = (brute.interval(part.numpy(), 0.95) for part in (samples[:20], samples))
    moves = [np.abs(new - old) for old, new in zip(before, after, strict=True)]
    moved = float(np.mean(moves) / np.mean(after[1] - after[0]))
    assert 0 < moved < 1
    for tolerance, stable in ((moved * 1.0001, True), (moved * 0.9999, False)):
        assert tb.AutoSamples(tolerance, cap=100).enough(samples, classes=False) is stable


def test_regression_draws_until_its_intervals_are_stable() -> None:
    auto = tb.AutoSamples(tolerance=0.05, first=8, cap=2000)
    pred = predict(regressor(), inputs(), auto, likelihood=tb.Gaussian())
    assert 8 < pred.sample_count < 2000
    assert auto.enough(pred.samples, classes=False)


def test_values_that_do_not_vary_are_stable() -> None:
    assert tb.AutoSamples().enough(torch.ones(50, 3, 1), classes=False)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"tolerance": 0.0},
            "`tolerance` (=0.0) must lie strictly between 0 and 1; it is a share of examples.",
        ),
        ({"tolerance": 1}, "`tolerance` (=1) must lie strictly between 0 and 1; it is a share of examples."),
        ({"cap": 49}, "`cap` (=49) must be at least `first` (=50); raise it."),
        ({"first": 1}, "`first` (=1) must be at least 2; it counts sampled networks."),
        ({"level": 1.0}, "`level` (=1.0) must lie strictly between 0 and 1; pass e.g. 0.95 for a 95 % interval."),
    ],
)
def test_bad_rules_are_refused(options: dict[str, float], text: str) -> None:
    with refused(text):
        tb.AutoSamples(**options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"cap": 100.5}, "`cap` (=100.5) must be a whole number; it counts sampled networks."),
        ({"cap": True}, "`cap` (=True) must be a whole number; it counts sampled networks."),
        ({"first": 20.0}, "`first` (=20.0) must be a whole number; it counts sampled networks."),
        ({"first": "50"}, "`first` (='50') must be a whole number; it counts sampled networks."),
        ({"tolerance": "0.5"}, "`tolerance` (='0.5') must be a number; it is a share of examples."),
        ({"tolerance": True}, "`tolerance` (=True) must be a number; it is a share of examples."),
        ({"level": "0.95"}, "`level` (='0.95') must be a number; pass e.g. 0.95."),
    ],
)
def test_rules_of_the_wrong_type_are_refused(options: dict[str, Any], text: str) -> None:
    with refused(text, TypeError):
        tb.AutoSamples(**options)
