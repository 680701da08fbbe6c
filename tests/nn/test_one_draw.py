"""One forward pass, one draw per tensor, however often and under however many names a layer reads it."""

import pytest
import torch
from torch import Tensor, nn

from tests.networks import any_network, bayesian, inputs_of
from tribayes.posterior.draw import plain


@any_network
def test_a_forward_draws_each_tensor_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, drawn = bayesian(name), []
    original = plain.standard_normals

    def counted(size: int, *arguments: object) -> Tensor:
        drawn.append(size)
        return original(size, *arguments)

    monkeypatch.setattr(plain, "standard_normals", counted)
    model(inputs_of(name))
    assert drawn == [mean.numel() + 1 for _, mean in model.means()]


def weights_seen(layer: nn.Module) -> list[Tensor]:
    """A list that fills with the layer's weight, one entry per call of the layer."""
    seen: list[Tensor] = []
    layer.register_forward_pre_hook(lambda module, _: seen.append(module.weight))
    return seen


def test_tied_weights_are_one_sample_in_both_places() -> None:
    model = bayesian("tied weights")
    embedding, decoder = weights_seen(model.module.embedding), weights_seen(model.module.decoder)
    model(inputs_of("tied weights"))
    assert len(embedding) == len(decoder) == 1
    assert embedding[0] is decoder[0]
    assert (embedding[0] != model.module.embedding.weight).all()


def test_a_shared_layer_has_one_sample_in_both_calls() -> None:
    model = bayesian("shared submodule")
    seen = weights_seen(model.module.first)
    model(inputs_of("shared submodule"))
    assert len(seen) == 2
    assert seen[0] is seen[1]
    assert (seen[0] != model.module.first.weight).all()


def test_outside_forward_the_network_is_at_its_means() -> None:
    model = bayesian("MLP")
    first = model.module[0]
    inputs = inputs_of("MLP")
    before = first(inputs)
    model(inputs)
    assert torch.equal(first(inputs), before)
