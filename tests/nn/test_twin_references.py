"""Whatever in a network refers to one of its weights or layers meets the given weights in its twin."""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tribayes as tb
from tests.networks import NETWORKS, bayesian, inputs_of, left_as_it_was
from tests.nn.twins import X, twin_of
from tribayes.nn.stage import Stage
from tribayes.nn.twin import Twin


class Indirect(nn.Module):
    """A layer that is reached in one of many ways."""

    def __init__(self, way: Callable[[nn.Module, nn.Linear], Callable[[Tensor], Tensor]]) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.way = way(self, self.layer)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.way(inputs)


class Reached(nn.Module):
    """A layer that is reached through an attribute that is no module."""

    def __init__(self, keep: Callable[[nn.Linear], object], use: Callable[[object, Tensor], Tensor]) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.kept = keep(self.layer)
        self.use = use

    def forward(self, inputs: Tensor) -> Tensor:
        return self.use(self.kept, inputs)


def _with_default(_: nn.Module, layer: nn.Linear) -> Callable[[Tensor], Tensor]:
    def function(inputs: Tensor, used: nn.Module = layer) -> Tensor:
        return used(inputs)

    return function


def _with_named_default(_: nn.Module, layer: nn.Linear) -> Callable[[Tensor], Tensor]:
    def function(inputs: Tensor, *, used: nn.Module = layer) -> Tensor:
        return used(inputs)

    return function


def _recursive(_: nn.Module, layer: nn.Linear) -> Callable[[Tensor], Tensor]:
    def function(inputs: Tensor, depth: int = 2) -> Tensor:
        return layer(inputs) if depth == 0 else function(inputs, depth - 1)

    return function


WAYS: dict[str, Callable[[], nn.Module]] = {
    "list": lambda: Reached(lambda layer: [layer], lambda kept, x: kept[0](x)),
    "nested lists": lambda: Reached(lambda layer: [[1, (layer,)]], lambda kept, x: kept[0][1][0](x)),
    "tuple": lambda: Reached(lambda layer: (layer, 1), lambda kept, x: kept[0](x)),
    "dict": lambda: Reached(lambda layer: {"a": layer}, lambda kept, x: kept["a"](x)),
    "ordered dict": lambda: Reached(lambda layer: OrderedDict(a=layer), lambda kept, x: kept["a"](x)),
    "dict of lists": lambda: Reached(lambda layer: {"a": [layer]}, lambda kept, x: kept["a"][0](x)),
    "list of parameters": lambda: Reached(lambda layer: [*layer.parameters()], lambda kept, x: F.linear(x, *kept)),
    "bound method": lambda: Reached(lambda layer: layer.forward, lambda kept, x: kept(x)),
    "partial of a method": lambda: Reached(lambda layer: functools.partial(layer.forward), lambda kept, x: kept(x)),
    "partial with weights": lambda: Reached(
        lambda layer: functools.partial(F.linear, weight=layer.weight, bias=layer.bias), lambda kept, x: kept(x)
    ),
    "partial with a layer": lambda: Reached(
        lambda layer: functools.partial(lambda one, x: one(x), layer), lambda kept, x: kept(x)
    ),
    "closure over a layer": lambda: Indirect(lambda _, layer: lambda x: layer(x)),
    "closure over the network": lambda: Indirect(lambda net, _: lambda x: net.layer(x)),
    "closure over a list": lambda: Indirect(lambda _, layer: (lambda kept: lambda x: kept[0](x))([layer])),
    "closure over a closure": lambda: Indirect(lambda _, layer: (lambda f: lambda x: f(x))(lambda x: layer(x))),
    "closure over itself": lambda: Indirect(_recursive),
    "default argument": lambda: Indirect(_with_default),
    "named default argument": lambda: Indirect(_with_named_default),
}
any_way = pytest.mark.parametrize("way", WAYS)


@any_way
def test_whatever_refers_to_a_layer_meets_the_given_weights(way: str) -> None:
    net = WAYS[way]()
    model = tb.to_bayesian(net, tau=0.5)
    draw = model.sample_weights(generator=3)
    expected = F.linear(X, draw["layer.weight"], draw["layer.bias"])
    with left_as_it_was(model):
        torch.testing.assert_close(model.apply_weights(draw, X), expected, rtol=0, atol=0)
    torch.testing.assert_close(net(X), F.linear(X, net.layer.weight, net.layer.bias), rtol=0, atol=0)
    composite = nn.Sequential(nn.Identity(), model)
    torch.testing.assert_close(Stage(composite).run([draw], X), expected, rtol=0, atol=0)


def test_what_refers_to_no_layer_is_shared() -> None:
    net = nn.Linear(3, 2)
    net.notes, net.table, net.function = [1, 2], {"a": (1, 2)}, lambda x: x
    twin = Twin(net, {}).network
    assert twin.notes is net.notes
    assert twin.table is net.table
    assert twin.function is net.function


def test_a_counter_of_a_closure_goes_on() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer = nn.Linear(3, 2)
            count = 0

            def counted(inputs: Tensor) -> Tensor:
                nonlocal count
                count += 1
                return layer(inputs)

            self.counted, self.count = counted, lambda: count

        def forward(self, inputs: Tensor) -> Tensor:
            return self.counted(inputs)

    net = Counting()
    model = tb.to_bayesian(net)
    for _ in range(3):
        model(X)
    assert net.count() == 3


def test_tied_weights_are_one_tensor_in_both_places() -> None:
    net = NETWORKS["tied weights"].build()
    given = torch.randn_like(net.embedding.weight)
    twin = twin_of(net, {"embedding.weight": given}).network
    assert twin.embedding.weight is twin.decoder.weight is given


def test_a_shared_submodule_is_shared_in_the_twin() -> None:
    net = NETWORKS["shared submodule"].build()
    twin = Twin(net, {}).network
    assert twin.first is twin.second
    assert twin.first is not net.first


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
def test_recurrent_layers_have_the_given_weights_in_their_flat_list(name: str) -> None:
    model, inputs = bayesian(name), inputs_of(name)
    draw = model.sample_weights(generator=2)
    cell = model.under(draw).network.cell
    names = [f"cell.{flat}" for flat in cell._flat_weights_names]
    assert all(value is draw[flat] for value, flat in zip(cell._flat_weights, names, strict=True))
    plain = tb.to_deterministic(model)
    plain.load_state_dict(draw)
    torch.testing.assert_close(model.apply_weights(draw, inputs), plain(inputs), rtol=0, atol=1e-14)


class Containers(nn.Module):
    """Parameters and modules in torch's own containers."""

    def __init__(self) -> None:
        super().__init__()
        self.listed = nn.ParameterList([torch.randn(3, 3), torch.randn(3)])
        self.named = nn.ParameterDict({"scale": torch.randn(3)})
        self.layers = nn.ModuleDict({"a": nn.ModuleList([nn.Linear(3, 2)])})
        self.missing = None
        self.register_module("nothing", None)
        self.register_parameter("no_bias", None)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layers["a"][0](F.linear(inputs, *self.listed) * self.named["scale"])


def test_torchs_containers_hold_the_given_weights() -> None:
    model = tb.to_bayesian(Containers(), tau=0.5)
    draw = model.sample_weights(generator=2)
    plain = tb.to_deterministic(model)
    plain.load_state_dict(draw)
    torch.testing.assert_close(model.apply_weights(draw, X), plain(X), rtol=0, atol=0)


def test_a_traced_network_has_a_twin() -> None:
    model = tb.to_bayesian(torch.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))), tau=0.5)
    draw = model.sample_weights(generator=2)
    hidden = torch.tanh(F.linear(X, draw["0.weight"], draw["0.bias"]))
    expected = F.linear(hidden, draw["2.weight"], draw["2.bias"])
    torch.testing.assert_close(model.apply_weights(draw, X), expected, rtol=0, atol=0)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_recurrent_layer_keeps_its_own_list_of_weights(kind: type[nn.RNNBase]) -> None:
    """torch keeps the weights once more in a list, beside weak references to them. A pass that left its draw there let
    a second thread, between the two, take the draw of the first."""
    model = tb.to_bayesian(kind(3, 2, 2))
    layer = model.module
    for _ in range(2):
        model(torch.randn(4, 1, 3))
        assert all(one is other for one, other in zip(layer._flat_weights, layer.parameters(), strict=True))
        assert all(ref() is own for ref, own in zip(layer._flat_weight_refs, layer.parameters(), strict=True))


def test_a_list_of_weights_that_a_pass_makes_anew_names_the_networks_own() -> None:
    class Listing(nn.Linear):
        def forward(self, inputs: Tensor) -> Tensor:
            self.seen = [self.weight, weakref.ref(self.weight)]
            return super().forward(inputs)

    model = tb.to_bayesian(Listing(3, 2))
    model(torch.randn(1, 3))
    weight, reference = model.module.seen
    assert weight is model.module.weight
    assert reference() is model.module.weight
