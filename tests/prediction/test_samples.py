"""Who answers: the `samples` argument, by a number, a range, as many as it takes, or moments."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import vmap

import tribayes as tb
from tests.networks import NETWORKS, bayesian, inputs_of
from tests.prediction.models import FEATURES, classifier, cut_chunks, inputs, predict, seeded
from tribayes.nn.stage import sample_model
from tribayes.posterior.streams import Stream
from tribayes.prediction.samples import Drawn

UNMAPPED = {"LSTM", "GRU"}  # torch has no vmap rule for them


def stacked(model: nn.Module, seed: int, count: int) -> dict[str, Tensor]:
    """The networks a prediction draws, along a new leading axis."""
    draws = [sample_model(model, Stream((seed, sample)))[0] for sample in range(count)]
    return {name: torch.stack([draw[name] for draw in draws]) for name in draws[0]}


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch loops where it has no rule
@pytest.mark.parametrize("name", [name for name in NETWORKS if name not in UNMAPPED])
def test_its_networks_all_in_one_pass_answer_as_one_after_the_other(name: str) -> None:
    model, x = bayesian(name), inputs_of(name)
    with torch.no_grad():
        together = vmap(model.apply_weights, in_dims=(0, None))(stacked(model, 3, 5), x).softmax(-1)
    torch.testing.assert_close(predict(model, x, 5, seed=3).samples, together, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", sorted(UNMAPPED))
def test_a_network_torch_cannot_map_over_is_asked_all_the_same(name: str) -> None:
    model, x = bayesian(name), inputs_of(name)
    with pytest.raises(RuntimeError, match="Batching rule not implemented"):
        vmap(model.apply_weights, in_dims=(0, None))(stacked(model, 0, 2), x)
    assert len(predict(model, x, 4).samples[:, 0].unique(dim=0)) == 4


def test_batches_and_shares_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = predict(classifier(), inputs(11), 7)
    cut_chunks(monkeypatch, 8, samples=7)
    torch.testing.assert_close(predict(classifier(), inputs(11), 7, batch_size=4).samples, whole.samples)


KINDS: dict[str, tuple[Any, Drawn | tb.Moments]] = {
    "a number": (3, Drawn(0, (0, 1, 2))),
    "a range": (range(4, 6), Drawn(0, (4, 5))),
    "as many as it takes": (tb.AutoSamples(tolerance=0.9, first=4, cap=8), Drawn(0, (0, 1, 2, 3))),
    "moments": (tb.Moments(16), tb.Moments(16)),
}


def linear(outputs: int = 3) -> tb.BayesianModule:
    return tb.to_bayesian(seeded(lambda: nn.Linear(FEATURES, outputs)), tau=0.5)


@pytest.mark.parametrize("keep_samples", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_prediction_knows_who_answered(kind: str, keep_samples: bool) -> None:
    samples, origin = KINDS[kind]
    pred = predict(linear(), inputs(), samples, keep_samples=keep_samples)
    assert pred.origin == origin
    assert pred.sample_indices == (origin.indices if isinstance(origin, Drawn) else ())
    assert pred.sample_count == len(pred.sample_indices)


@pytest.mark.parametrize("kind", KINDS)
def test_every_likelihood_takes_every_kind(kind: str) -> None:
    samples, origin = KINDS[kind]
    for likelihood, outputs in ((tb.Bernoulli(), 1), (tb.Gaussian(0.3), 2)):
        pred = predict(linear(outputs), inputs(), samples, likelihood)
        assert pred.mean.shape == (15, 2)
        assert pred.origin == origin


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_of_the_network_comes_through_as_it_is(kind: str) -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        predict(linear(), torch.zeros(4, 5, dtype=torch.float64), KINDS[kind][0])


def test_a_number_is_the_range_up_to_it() -> None:
    assert torch.equal(predict(classifier(), inputs(), 4).samples, predict(classifier(), inputs(), range(4)).samples)


def test_numbers_of_samples_may_be_large() -> None:
    far = predict(classifier(), inputs(), range(10**12, 10**12 + 2))
    assert far.sample_indices == (10**12, 10**12 + 1)
    assert not torch.equal(far.samples, predict(classifier(), inputs(), 2).samples)


def test_one_sample_of_many_alone() -> None:
    whole = predict(classifier(), inputs(), 9)
    for number in (0, 4, 8):
        alone = predict(classifier(), inputs(), range(number, number + 1))
        assert torch.equal(alone.samples[0], whole.samples[number])


def test_the_first_round_may_be_all() -> None:
    assert predict(classifier(), inputs(), tb.AutoSamples(tolerance=1e-9, first=7, cap=7)).sample_count == 7


def test_each_round_asks_only_for_what_is_missing() -> None:
    """Six networks, then six more, then the eight up to the cap; before them one pass at the means."""
    passes: list[int] = []

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(FEATURES, 3)

        def forward(self, x: Tensor) -> Tensor:
            passes.append(len(x))
            return self.layer(x)

    model = tb.to_bayesian(seeded(Counting), tau=1.0)
    pred = predict(model, inputs(200), tb.AutoSamples(tolerance=1e-9, first=6, cap=20))
    assert pred.sample_count == 20
    assert len(passes) == 1 + 20


@pytest.mark.parametrize("value", [tb.Moments(), tb.AutoSamples(), Drawn(0, (1,))])
def test_they_are_values_and_do_not_change(value: Any) -> None:
    name = next(iter(vars(value)))
    with pytest.raises(FrozenInstanceError):
        setattr(value, name, 2)
    same = type(value)(**vars(value))
    assert same == value
    assert hash(same) == hash(value)


def test_moments_are_512_points_unless_said_otherwise() -> None:
    assert tb.Moments() == tb.Moments(512) == tb.Moments(points=512)
    assert len(predict(linear(), inputs(), tb.Moments()).samples) == 512
    assert len(predict(linear(), inputs(), tb.Moments(2)).samples) == 2
    assert predict(linear(), inputs(), tb.Moments(np.int64(4))).origin == tb.Moments(4)
