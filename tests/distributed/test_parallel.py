"""Processes that each have the whole network: DistributedDataParallel, shared predictions, runs, and a death."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import tribayes as tb
from tests.distributed.four_checks import PREDICTED
from tests.distributed.models import bayesian, data, optimizer_of, state_of, trained
from tests.distributed.parallel_checks import (
    DIES_AT,
    ITERATIONS,
    PREDICTIONS,
    fitted_table,
    own_loss,
    plain_model,
    trained_in,
    with_noise,
)
from tests.distributed.processes import Found, needs_gloo
from tests.distributed.test_sharded import close
from tests.networks import same_tensors

pytestmark = needs_gloo


def test_under_the_same_draw_halves_of_a_batch_are_the_batch(by_two: Found) -> None:
    expected = trained(bayesian())
    for found in by_two["same draw"]:
        close(found, expected)


def test_so_are_quarters(by_four: Found) -> None:
    expected = trained(bayesian())
    for found in by_four["same draw"]:
        close(found, expected)


@pytest.mark.parametrize("name", PREDICTED)
def test_four_processes_share_a_prediction(by_four: Found, name: str) -> None:
    alone = tb.predict(plain_model(), data()[0], PREDICTIONS[name]["samples"], progress=False)
    for found in by_four[f"predict, {name}"]:
        assert found.sample_indices == alone.sample_indices
        torch.testing.assert_close(found.samples, alone.samples, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("seed", ["seed", "none"])
def test_by_default_processes_draw_their_own_weights_and_stay_one_model(by_two: Found, seed: str) -> None:
    one, other = (dict(found[seed]) for found in by_two["own draws"])
    assert not torch.equal(one.pop("draw"), other.pop("draw"))
    one.pop("outputs")
    other.pop("outputs")
    assert same_tensors(one, other)


def test_the_coins_of_the_paper_s_rule_agree(by_two: Found) -> None:
    assert same_tensors(*by_two["coins"])


@pytest.mark.parametrize("way", ["", ", looking for unused"])
def test_a_loop_of_one_s_own_steps_along_the_mean_of_the_gradients(by_two: Found, way: str) -> None:
    """Also where torch looks for parameters without a gradient, as transformers' Trainer lets it by default."""
    model = bayesian()
    tb.stabilise_(model)
    gradients = [torch.autograd.grad(own_loss(model, rank), list(model.parameters())) for rank in range(2)]
    for parameter, *parts in zip(model.parameters(), *gradients, strict=True):
        assert not torch.equal(*parts)
        parameter.grad = torch.stack(parts).mean(0)
    optimizer_of(model, "sgd").step()
    for found in by_two[f"mean of gradients{way}"]:
        close(found, state_of(model))


def test_one_process_may_ask_a_parallel_model_by_itself(by_two: Found) -> None:
    expected = tb.predict(bayesian(), data()[0], samples=3, progress=False).samples
    assert torch.equal(by_two["alone under DDP"][0], expected)


@pytest.mark.parametrize("name", PREDICTIONS)
def test_a_shared_prediction_is_that_of_one_process(by_two: Found, name: str) -> None:
    options = {key: value for key, value in PREDICTIONS[name].items() if key != "over"}
    alone = tb.predict(plain_model(), data()[0], progress=False, **options)
    for found in by_two[f"predict, {name}"]:
        assert found.sample_indices == alone.sample_indices
        for level in (0.95, 0.99):
            torch.testing.assert_close(found.interval(level), alone.interval(level), rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(found.mean, alone.mean, rtol=1e-12, atol=1e-14)


def test_what_cannot_be_shared_is_refused(by_two: Found) -> None:
    found = by_two["parallel refusals"][0]
    assert "`over` (='both') must be one of ['samples', 'examples']" in found["over"]
    assert "be a number or a range, to be shared" in found["auto"]
    assert "quantiles of some of the draws cannot be merged" in found["reduced"]
    assert 'pass over="samples" for a loader' in found["loader"]
    assert "must be a multiple of the 2 processes that share it; choose e.g. 2." in found["batch"]
    # 51 rows train, and a batch has no more
    assert "`--set batch` (=51) must be a multiple of the 2 processes that share it; choose e.g. 50." in found["few"]
    assert "leave it out, or take steps by tb.TrainingStep" in found["static"]


def test_a_run_of_two_processes_is_that_of_one(by_two: Found, tmp_path: Path) -> None:
    state, records = trained_in(tb.runs.Run.at(tmp_path / "alone"))
    for found, written in by_two["run"]:
        close(found, state)
        assert [one.iteration for one in written] == [one.iteration for one in records]
        assert written[-1].loss == pytest.approx(records[-1].loss, rel=1e-5)
        assert written[-1].test_nll == pytest.approx(records[-1].test_nll, rel=1e-5)


@pytest.mark.parametrize("way", ["DDP", "sharded"])
def test_a_learned_noise_steps_along_the_mean_of_the_gradients(by_two: Found, way: str) -> None:
    expected = with_noise(bayesian(), slice(None), 0.5)
    start = tb.Gaussian(0.5, learned=True).double().state_dict()
    assert all(not torch.equal(expected[f"likelihood.{name}"], value) for name, value in start.items())
    for found in by_two["learned noise"]:
        close(found[way], expected)


def test_a_table_of_ones_own_is_learned_by_two_processes_as_by_one(
    by_two: Found, meeting_place: Path, tmp_path: Path
) -> None:
    pytest.importorskip("pandas", reason="tables are read with pandas")
    alone = fitted_table(meeting_place / "people.csv", tmp_path / "alone")
    for found in by_two["own table"]:
        torch.testing.assert_close(found.mean, alone.mean, rtol=1e-5, atol=0)
        torch.testing.assert_close(found.std, alone.std, rtol=1e-3, atol=0)


def test_a_process_that_dies_leaves_a_checkpoint_that_one_process_continues(
    by_two: Found, meeting_place: Path, tmp_path: Path
) -> None:
    (said,) = by_two["last"]
    assert said.startswith("lost: process 0 of 2 waited in vain for another one")
    assert f"the run in {meeting_place / 'dying'} is cut short: the same program continues" in said
    run = tb.runs.Run.open(meeting_place / "dying")
    assert not run.finished
    state, records = trained_in(run, schedule=lambda _: 1.0)
    close(state, trained_in(tb.runs.Run.at(tmp_path / "alone"), schedule=lambda _: 1.0)[0])
    assert DIES_AT < records[-1].iteration == ITERATIONS
