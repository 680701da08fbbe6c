"""A state_dict holds the whole posterior, and only a model of the same layout takes it."""

import io
import re

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.networks import NETWORKS, any_family, any_network, bayesian, inputs_of, same_tensors

LAYOUT_DIFFERS = (
    "the checkpoint's random tensors differ from this model's in names or shapes; "
    "convert the same network with the same `where` before loading"
)


def trained(name: str, family: str) -> tb.BayesianModule:
    """A model whose every parameter differs from a new one's, with a prior of its own."""
    model = bayesian(name, family=family, prior=tb.Prior(loc=0.2, scale=0.6))
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.rand(parameter.shape, generator=generator, dtype=torch.float64) + 0.1)
    return model


def through_a_file(state: dict[str, Tensor]) -> dict[str, Tensor]:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@any_network
@any_family
def test_a_round_trip_restores_draws_divergence_and_output(name: str, family: str) -> None:
    model, fresh, inputs = trained(name, family), bayesian(name, family=family), inputs_of(name)
    assert not torch.equal(fresh.kl(), model.kl())
    fresh.load_state_dict(through_a_file(model.state_dict()))
    assert same_tensors(fresh.state_dict(), model.state_dict())
    assert same_tensors(fresh.sample_weights(generator=1), model.sample_weights(generator=1))
    assert torch.equal(fresh.kl(), model.kl())
    assert torch.equal(fresh.apply_weights({}, inputs), model.apply_weights({}, inputs))


@any_network
def test_a_tied_network_stays_tied_after_loading(name: str) -> None:
    fresh = bayesian(name)
    fresh.load_state_dict(trained(name, "tridiagonal").state_dict())
    aliases = len(list(fresh.named_parameters(remove_duplicate=False))) - len(list(fresh.parameters()))
    assert aliases == {"tied weights": 1, "shared submodule": 2}.get(name, 0)


@pytest.mark.parametrize(
    ("net", "where"),
    [
        (nn.Linear(4, 2), "weight"),  # another choice
        (nn.Linear(2, 4), None),  # other shapes, as many weights
        (nn.Bilinear(2, 2, 2), None),  # another layer with the same names
    ],
)
def test_a_checkpoint_of_another_layout_is_refused(net: nn.Module, where: str | None) -> None:
    state = tb.to_bayesian(net, where=where).state_dict()
    with pytest.raises(RuntimeError, match=re.escape(LAYOUT_DIFFERS)):
        tb.to_bayesian(nn.Linear(4, 2)).load_state_dict(state)


def test_the_layout_is_checked_inside_a_larger_model_too() -> None:
    larger = nn.Sequential(tb.nn.Linear(4, 2), tb.nn.Linear(2, 1))
    other = nn.Sequential(tb.nn.Linear(4, 2), tb.nn.Linear(2, 1, where="weight"))
    with pytest.raises(RuntimeError, match=re.escape(LAYOUT_DIFFERS)):
        larger.load_state_dict(other.state_dict())


def test_a_checkpoint_of_the_plain_network_is_not_mistaken_for_one() -> None:
    with pytest.raises(RuntimeError, match="Missing key"):
        bayesian("MLP").load_state_dict(NETWORKS["MLP"].build().state_dict())


def test_the_order_of_tensors_belongs_to_the_layout() -> None:
    class Swapped(nn.Module):
        """nn.Linear(2, 2, bias=False) twice, registered in the order its argument says."""

        def __init__(self, *names: str) -> None:
            super().__init__()
            for name in names:
                self.add_module(name, nn.Linear(2, 2, bias=False))

    state = tb.to_bayesian(Swapped("one", "two")).state_dict()
    with pytest.raises(RuntimeError, match=re.escape(LAYOUT_DIFFERS)):
        tb.to_bayesian(Swapped("two", "one")).load_state_dict(state)
