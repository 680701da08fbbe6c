"""Several networks in one pass: the same answers as one after the other, and a choice by measurement."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.networks import NETWORKS, any_network, bayesian, inputs_of
from tribayes.prediction import together

UNMAPPED = {"LSTM", "GRU"}  # torch has no vmap rule for them


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch loops where it has no rule
@any_network
def test_networks_at_once_answer_as_one_after_the_other(name: str) -> None:
    if name in UNMAPPED:
        pytest.skip("torch has no vmap rule for this network; see the next test")
    model, inputs = bayesian(name), inputs_of(name)
    loop = tb.predict(model, inputs, 5, seed=3, progress=False)
    for at_once in (2, 5, 9):
        both = tb.predict(model, inputs, 5, seed=3, progress=False, at_once=at_once)
        torch.testing.assert_close(both.samples, loop.samples, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", sorted(UNMAPPED & set(NETWORKS)))
def test_a_network_torch_cannot_map_over_is_refused_but_not_by_measurement(name: str) -> None:
    model, inputs = bayesian(name), inputs_of(name)
    with pytest.raises(ValueError, match=r"`at_once`.*be 1 for this network"):
        tb.predict(model, inputs, 4, progress=False, at_once=2)
    loop = tb.predict(model, inputs, 4, progress=False)
    assert torch.equal(tb.predict(model, inputs, 4, progress=False, at_once="measure").samples, loop.samples)


def test_batches_and_shares_do_not_matter() -> None:
    model = tb.to_bayesian(nn.Linear(3, 2))
    inputs = torch.randn(11, 3)
    whole = tb.predict(model, inputs, 7, progress=False)
    cut = tb.predict(model, inputs, 7, progress=False, at_once=3, batch_size=4, chunk_size=8)
    torch.testing.assert_close(cut.samples, whole.samples)


def _clocked(monkeypatch: pytest.MonkeyPatch, cost: dict[int, float]) -> tuple[Callable[[int], Tensor], list[int]]:
    """Something to run under a clock that goes on by what a pass of so many networks costs; and what was run."""
    seen: list[int] = []
    now = [0.0]
    monkeypatch.setattr(together, "perf_counter", lambda: now[0])

    def run(count: int) -> Tensor:
        seen.append(count)
        now[0] += cost[count]
        return torch.zeros(count)

    return run, seen


@pytest.mark.parametrize(
    ("cost", "count", "expected"),
    [
        ({1: 1.0, 4: 3.0, 16: 20.0}, 100, 4),
        ({1: 1.0, 4: 5.0, 16: 17.0}, 100, 1),
        ({1: 1.0, 4: 3.0, 16: 8.0}, 100, 16),
        ({1: 1.0, 4: 3.0, 16: 8.0}, 10, 4),  # there are not sixteen to run
    ],
)
def test_the_fastest_a_network_is_taken(
    cost: dict[int, float], count: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, seen = _clocked(monkeypatch, cost)
    assert together.fastest(run, count) == expected
    assert set(seen) == {candidate for candidate in cost if candidate <= count}


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "be at least 1"), (True, "be a number of networks"), ("fast", 'or "measure"'), (1.5, "number")],
)
def test_wrong_values_are_refused(value: object, text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        tb.predict(tb.to_bayesian(nn.Linear(2, 2)), torch.randn(1, 2), 2, progress=False, at_once=value)


@pytest.mark.parametrize("at_once", [2, "measure"])
def test_an_error_of_the_network_is_not_blamed_on_the_mapping(at_once: object) -> None:
    model = tb.to_bayesian(nn.Sequential(nn.Flatten(), nn.Linear(3, 2)))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        tb.predict(model, torch.randn(4, 5), 4, progress=False, at_once=at_once, chunk_size=4)
