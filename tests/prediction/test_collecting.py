"""Answers of sampled networks, collected. What a GPU does with them is in tests/gpu/test_prediction.py."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from tribayes.prediction.sampled import _GROUP, Answers, _Carrier, collect
from tribayes.prediction.source import Kept


def test_rows_of_one_network_or_several_become_one_tensor() -> None:
    samples = torch.rand(5, 4, 3)
    collected = collect(iter(samples.split([2, 1, 2])), 5, keep=True)
    assert torch.equal(collected.samples, samples)
    assert collected.on_host is None  # they are there already: no second copy


def test_more_networks_come_behind() -> None:
    samples = torch.rand(5, 4, 3)
    first, more = (collect([part], len(part), keep=True) for part in samples.split([2, 3]))
    joined = first.joined(more)
    assert torch.equal(joined.samples, samples)
    assert joined.on_host is None


def test_what_was_brought_to_the_host_is_joined_there() -> None:
    samples = torch.rand(5, 4, 3)
    first, more = (Answers(part, part + 1) for part in samples.split([2, 3]))
    joined = first.joined(more)
    assert joined.on_host is not None
    assert torch.equal(joined.on_host, samples + 1)


def test_what_was_brought_to_the_host_is_kept_without_a_copy() -> None:
    samples = torch.rand(5, 4, 3)
    brought = samples.clone()
    assert Kept(samples, brought).samples is brought


class Line:
    """Stands in for a GPU: what is asked of it is done when somebody waits for it, and not before."""

    def __init__(self) -> None:
        self.asked: list[tuple[Tensor, Tensor]] = []
        self.done = 0

    def compute(self, value: Tensor) -> Tensor:
        place = torch.full_like(value, torch.nan)
        self.asked.append((place, value))
        return place

    def record_event(self) -> int:
        return len(self.asked)

    def wait_event(self, upto: int) -> None:
        for place, value in self.asked[self.done : upto]:
            place.copy_(value)
        self.done = max(self.done, upto)


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    line = Line()
    fakes: dict[str, Any] = {"Stream": lambda _: line, "Event": lambda: 0, "current_stream": lambda _: line}
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    return line


@pytest.mark.parametrize("networks", [1, 3])
@pytest.mark.parametrize("rows", [1, _GROUP - 1, _GROUP, 2 * _GROUP, 3 * _GROUP + 1])
def test_the_carrier_waits_for_what_it_brings_and_lets_the_next_group_be(line: Line, rows: int, networks: int) -> None:
    samples = torch.rand(rows * networks, 4, 3)
    carrier = _Carrier(samples[:1], len(samples))
    for number, row in enumerate(samples.split(networks), 1):
        carrier.take(line.compute(row))
        groups = number // _GROUP
        assert line.done == max(0, groups - 1) * _GROUP  # a group is still being computed
    assert torch.equal(carrier.all_brought(), samples)
