"""Answers of sampled networks, collected. What a GPU does with them is in tests/gpu/test_prediction.py."""

from __future__ import annotations

import torch

from tribayes.prediction.collecting import Answers, collect


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
