"""Checkpoints of torch.distributed.checkpoint: written by two processes, read by four, and theirs by one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import tribayes as tb
from tests.distributed.four_checks import go_on
from tests.distributed.models import bayesian, optimizer_of, state_of, trained
from tests.distributed.processes import Found, needs_gloo
from tests.distributed.sharded_checks import load
from tests.distributed.test_sharded import close

pytestmark = needs_gloo


def test_four_processes_go_on_from_what_two_have_kept(by_two: Found, by_four: Found) -> None:
    for found in by_four["loaded"]:
        close(found, by_two["saved"][0])


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")  # so it is meant
def test_one_process_goes_on_from_what_four_have_kept(by_four: Found, meeting_place: Path) -> None:
    model = bayesian()
    optimizer = optimizer_of(model, "sgd")
    load(model, optimizer, meeting_place / "of-four")
    close(state_of(model), by_four["loaded"][0])
    velocity = {name: optimizer.state[p]["momentum_buffer"] for name, p in model.module.named_parameters()}
    assert all(value.abs().sum() > 0 for value in velocity.values())
    go_on(model, optimizer)  # and it can be trained on


def test_parts_that_are_held_twice_train_as_one_process(by_four: Found) -> None:
    expected = trained(bayesian(prior=tb.Prior(scale=0.5)))
    for found in by_four["hybrid"]:
        close(found, expected)


def test_both_holders_of_a_part_throw_the_same_coins(by_four: Found) -> None:
    parts: dict[int, list[torch.Tensor]] = {}
    for found in by_four["hybrid coins"]:
        parts.setdefault(found["place"][1], []).append(found["part"])
    assert all(torch.equal(*pair) for pair in parts.values())
    assert len(torch.cat([pair[0].flatten() for pair in parts.values()]).unique()) == 2  # both sides of zero
