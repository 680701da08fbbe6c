"""FSDP2: a network of which each process holds a part has the law, the draws and the steps of the whole."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import tribayes as tb
from tests.distributed.models import PRIORS, bayesian, data, optimizer_of, state_of, trained
from tests.distributed.processes import Found, needs_gloo
from tests.distributed.sharded_checks import DRAWS, TRAININGS, mixed, one_layer, split
from tests.networks import same_tensors

pytestmark = needs_gloo


def close(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def detached(draw: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach() for name, value in draw.items()}


def test_a_draw_is_that_of_one_process(by_two: Found) -> None:
    model = bayesian()
    model.family._implementation = "plain"  # what a part is drawn by, so that nothing differs, not even by rounding
    for found in by_two["draws"]:
        assert found["sampler"] == "sharded"
        assert same_tensors(found["one"], detached(model.sample_weights(generator=3)))
        assert same_tensors(found["three"], detached(model.sample_weights(3, generator=4)))
        assert found["posterior"] == str(model.posterior())


def test_without_a_seed_the_first_process_draws_and_the_others_keep_their_generators(by_two: Found) -> None:
    model = bayesian()
    model.family._implementation = "plain"
    torch.manual_seed(10)
    expected = detached(model.sample_weights())
    assert all(same_tensors(found["of no seed"], expected) for found in by_two["draws"])
    rests = [found["rest"] for found in by_two["draws"]]
    assert torch.equal(rests[0], torch.rand(2))
    torch.manual_seed(11)
    assert torch.equal(rests[1], torch.rand(2))


def test_neighbours_are_correlated_across_the_border_as_within_a_part(by_two: Found) -> None:
    """Covariances of 500 draws against the dense ones; all 120 within 5 standard errors but in one of 10⁴ runs."""
    draws = by_two["border"][0].reshape(DRAWS, 15)
    law = one_layer().laws()["weight"]
    expected = law.covariance_matrix.detach()
    centred = draws - law.mean.detach()
    error = (torch.outer(expected.diag(), expected.diag()) + expected.square()).div(DRAWS).sqrt()
    assert ((centred.T @ centred / DRAWS - expected) / error).abs().max() < 5
    last, first = 8, 9  # of the first process's three rows, and of the second's two
    assert abs(expected[last, first]) > 8 * error[last, first]  # so a border without correlation would be seen
    assert torch.equal(*by_two["border"])


@pytest.mark.parametrize("name", PRIORS)
def test_divergence_and_its_gradient_are_those_of_the_whole(by_two: Found, name: str) -> None:
    model = bayesian(prior=PRIORS[name])
    divergence = model.kl()
    divergence.backward()
    gradients = {key: p.grad for key, p in model.named_parameters() if p.grad is not None}
    for found in by_two["divergences"]:
        torch.testing.assert_close(found[name][0], divergence.detach(), rtol=1e-12, atol=0)
        assert set(gradients) <= set(found[name][1])
        close({key: found[name][1][key] for key in gradients}, gradients)


@pytest.mark.parametrize("name", TRAININGS)
def test_processes_with_half_a_batch_each_step_as_one_with_all_of_it(by_two: Found, name: str) -> None:
    of_model, of_training = split(TRAININGS[name])
    expected = trained(bayesian(**of_model), **of_training)
    for found in by_two[f"sharded, {name}"]:
        close(found, expected)


def test_a_bayesian_layer_among_ordinary_ones(by_two: Found) -> None:
    for found in by_two["inside another"]:
        close(found, trained(mixed()))


def test_noise_by_example_is_each_process_s_own(by_two: Found) -> None:
    one, other = (dict(found) for found in by_two["local noise"])
    assert not torch.equal(one.pop("outputs"), other.pop("outputs"))
    assert same_tensors(one, other)


def test_a_step_after_a_call_of_the_module_learns_what_is_kept(by_two: Found) -> None:
    model = bayesian()
    tb.TrainingStep(model, tb.ELBO(tb.Categorical(), data_size=20), optimizer_of(model, "sgd"), generator=5)(*data())
    for found in by_two["after a call"]:
        close(found, state_of(model))


def test_predictions_are_those_of_one_process(by_two: Found) -> None:
    expected = tb.predict(bayesian(), data()[0], samples=5, progress=False).samples
    for found in by_two["prediction"]:
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)


def test_what_cannot_be_done_is_refused(by_two: Found) -> None:
    found = by_two["refusals"][0]
    assert "must be sharded as a whole, but a tensor of shape (3, 5) is not" in found["partly"]
    assert "call fully_shard(model) last" in found["partly"]
    assert "must be cut by its first axis" in found["axis"]
    assert "torch has no fused SGD for DTensors; leave fused out, or use AdamW." in found["fused"]
    assert "must be whole in every process; call tribayes.predict(model, ...) in every process" in found["shared"]
    for name in ("kept", "copied", "stacked", "in a folder"):
        assert "must be whole in this process; pass one like it, converted but not sharded, that has" in found[name]


def test_a_whole_model_is_filled_from_one_in_parts_to_be_kept(by_two: Found) -> None:
    for difference in by_two["filled whole"]:
        assert difference.abs().max() < 1e-12
