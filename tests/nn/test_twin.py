"""A network runs under a draw as its twin: whatever it is made of, with the right weights, and left as it was."""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn.utils import parametrizations, parametrize
from torch.utils.checkpoint import checkpoint

import tribayes as tb
from tests.compiling import draws_are_compiled
from tests.interrupts import interrupted_at
from tests.networks import NETWORKS, any_network, bayesian, inputs_of, left_as_it_was, same_tensors
from tests.patience import PATIENCE
from tribayes.nn.stage import Stage
from tribayes.nn.twin import Twin

X = torch.linspace(-1, 1, 12).reshape(4, 3)


def twin_of(network: nn.Module, given: dict[str, Tensor]) -> Twin:
    return Twin(network, {id(network.get_parameter(name)): value for name, value in given.items()})


# nothing is touched


class Watched(nn.Module):
    """Calls what it is told to while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.call: Callable[[], object] = lambda: None

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self.layer(inputs)
        self.call()
        return outputs + self.layer.bias


class Look:
    """Looks at a network from outside: an object of its own, which a twin shares with its network."""

    def __init__(self, net: Watched) -> None:
        self.net, self.seen = net, []
        self.parameters = dict(net.named_parameters())

    def __call__(self) -> None:
        now = dict(self.net.named_parameters())
        self.seen.append(all(now[name] is parameter for name, parameter in self.parameters.items()))
        weight, bias = self.parameters["layer.weight"], self.parameters["layer.bias"]
        self.seen.append(torch.equal(self.net.layer(X), F.linear(X, weight, bias)))


def test_the_network_is_untouched_while_its_twin_runs() -> None:
    net = Watched()
    model = tb.to_bayesian(net, tau=0.5)
    net.call = look = Look(net)
    with left_as_it_was(model):
        model(X)
        model.apply_weights(model.sample_weights(), X)
        Stage(model).run([model.sample_weights()], X)
        Stage(nn.Sequential(model)).run([model.sample_weights()], X)
    assert look.seen == [True] * 8


def test_another_thread_meets_the_means_while_a_pass_is_inside_the_network() -> None:
    net = Watched()
    model = tb.to_bayesian(net, tau=0.5)
    inside, looked = threading.Event(), threading.Event()
    first = iter([True])

    def stop() -> None:
        if next(first, False):  # the second thread passes through
            inside.set()
            assert looked.wait(PATIENCE)

    net.call = stop
    draw = model.sample_weights(generator=1)
    results: list[Tensor] = []
    running = threading.Thread(target=lambda: results.append(model.apply_weights(draw, X)))
    running.start()
    assert inside.wait(PATIENCE)
    with left_as_it_was(model):
        means = model.apply_weights({}, X)
        assert all(isinstance(parameter, nn.Parameter) for parameter in net.parameters())
        expected = F.linear(X, net.layer.weight, net.layer.bias) + net.layer.bias
        torch.testing.assert_close(means, expected, rtol=0, atol=0)
        looked.set()
        running.join(PATIENCE)
    weight, bias = draw["layer.weight"], draw["layer.bias"]
    torch.testing.assert_close(results[0], F.linear(X, weight, bias) + bias, rtol=0, atol=0)


@any_network
def test_a_twin_shares_everything_but_what_was_given(name: str) -> None:
    net = NETWORKS[name].build()
    first = next(iter(net.named_parameters()))[0]
    given = torch.ones_like(net.get_parameter(first))
    twin = twin_of(net, {first: given}).network
    assert type(twin) is type(net)
    ours = dict(twin.named_parameters(remove_duplicate=False))
    theirs = dict(net.named_parameters(remove_duplicate=False))
    replaced = theirs[first]
    assert ours.keys() == theirs.keys()
    assert all(ours[key] is (given if value is replaced else value) for key, value in theirs.items())
    assert {id(value) for value in twin.buffers()} == {id(value) for value in net.buffers()}
    assert [key for key, _ in twin.named_modules()] == [key for key, _ in net.named_modules()]
    assert {id(module) for module in twin.modules()}.isdisjoint({id(module) for module in net.modules()})


def test_own_buffers_are_copies_and_shared_ones_are_shared_among_them() -> None:
    net = nn.Sequential(nn.BatchNorm1d(3), nn.BatchNorm1d(3))
    net[1].running_mean = net[0].running_mean
    before = {name: value.clone() for name, value in net.state_dict().items()}
    twin = Twin(net, {}, own_buffers=True).network
    assert twin[1].running_mean is twin[0].running_mean
    twin(X)
    assert same_tensors(net.state_dict(), before)
    assert not torch.equal(twin[0].running_mean, before["0.running_mean"])


# whatever refers to a weight


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


# computed weights, hooks


class Symmetric(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight.triu() + weight.triu(1).T


def _symmetric() -> nn.Module:
    net = nn.Linear(3, 3)
    parametrize.register_parametrization(net, "weight", Symmetric())
    return net


COMPUTED: dict[str, Callable[[], nn.Module]] = {
    "parametrized": _symmetric,
    "weight_norm": lambda: parametrizations.weight_norm(nn.Linear(3, 3)),
    "spectral_norm": lambda: parametrizations.spectral_norm(nn.Linear(3, 3)),
    "orthogonal": lambda: parametrizations.orthogonal(nn.Linear(3, 3)),
}


@pytest.mark.parametrize("kind", COMPUTED)
def test_weights_are_computed_from_the_given_ones(kind: str) -> None:
    model = tb.to_bayesian(nn.Sequential(COMPUTED[kind](), nn.Tanh()).eval(), tau=0.3)
    draw = model.sample_weights(generator=2)
    plain = tb.to_deterministic(model)
    with torch.no_grad():
        for name, value in draw.items():
            plain.get_parameter(name).copy_(value)
    with left_as_it_was(model):
        outputs = model.apply_weights(draw, X)
    torch.testing.assert_close(outputs, plain(X), rtol=1e-6, atol=1e-7)
    assert not torch.allclose(outputs, model.module(X))
    outputs.sum().backward()
    assert all(mean.grad is not None and mean.grad.isfinite().all() for _, mean in model.means())


def test_the_power_iteration_of_a_spectral_norm_goes_on_in_the_network() -> None:
    model = tb.to_bayesian(parametrizations.spectral_norm(nn.Linear(3, 3)))
    before = model.module.parametrizations.weight[0]._u.clone()
    model(X)
    assert not torch.equal(model.module.parametrizations.weight[0]._u, before)


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated:FutureWarning")
def test_weight_norm_by_a_hook_is_computed_from_the_given_weights() -> None:
    model = tb.to_bayesian(torch.nn.utils.weight_norm(nn.Linear(3, 2)), tau=0.5)
    draw = model.sample_weights(generator=2)
    v, g = draw["weight_v"], draw["weight_g"]
    expected = F.linear(X, g * v / v.norm(dim=1, keepdim=True), draw["bias"])
    torch.testing.assert_close(model.apply_weights(draw, X), expected, rtol=1e-6, atol=1e-7)


def test_hooks_are_called_with_the_given_weights_in_place() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    model = tb.to_bayesian(net, tau=0.5)
    seen: list[Tensor] = []
    net[0].register_forward_pre_hook(lambda module, _: seen.append(module.weight))
    net[1].register_forward_hook(lambda module, _, outputs: (seen.append(module.weight), 2 * outputs)[1])
    gradients: list[Tensor] = []
    net[1].register_full_backward_hook(lambda _, given, __: gradients.append(given[0]))
    draw = model.sample_weights(generator=1)
    outputs = model.apply_weights(draw, X)
    assert seen[0] is draw["0.weight"]
    assert seen[1] is draw["1.weight"]
    hidden = F.linear(X, draw["0.weight"], draw["0.bias"])
    expected = 2 * F.linear(hidden, draw["1.weight"], draw["1.bias"])
    torch.testing.assert_close(outputs, expected, rtol=0, atol=0)
    outputs.sum().backward()
    assert len(gradients) == 1
    assert len(gradients[0]) == len(X)


# what a pass is meant to change


class Averaging(nn.Module):
    """Keeps a running mean by assigning its buffer anew, and one in place."""

    mean: Tensor
    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("total", torch.zeros(()))

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self.layer(inputs)
        self.mean = 0.5 * self.mean + outputs.detach().mean(0)
        self.total += 1
        return outputs


def test_buffers_are_updated_in_place_and_by_assignment() -> None:
    net = Averaging()
    model = tb.to_bayesian(net)
    total = net.total
    outputs = [model(X).detach().mean(0) for _ in range(3)]
    torch.testing.assert_close(net.mean, 0.25 * outputs[0] + 0.5 * outputs[1] + outputs[2])
    assert net.total is total
    assert net.total == 3
    assert set(net.state_dict()) == {"layer.weight", "layer.bias", "mean", "total"}
    composite = nn.Sequential(model)
    stage = Stage(composite)
    stage.run([model.sample_weights()], X)
    assert net.total == 4


def test_batch_norm_learns_its_statistics_under_draws() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    model = tb.to_bayesian(net)
    mean = net[1].running_mean
    hidden = [F.linear(X, draw["0.weight"], draw["0.bias"]) for draw in _applied(model, 2)]
    expected = 0.1 * 0.9 * hidden[0].mean(0) + 0.1 * hidden[1].mean(0)
    assert net[1].running_mean is mean
    torch.testing.assert_close(mean, expected.detach())
    assert net[1].num_batches_tracked == 2
    model.eval()
    _ = model(X)
    assert net[1].num_batches_tracked == 2


def _applied(model: tb.BayesianModule, times: int) -> Iterator[dict[str, Tensor]]:
    for seed in range(times):
        draw = model.sample_weights(generator=seed)
        model.apply_weights(draw, X)
        yield draw


class Remembering(nn.Module):
    """Sets attributes of its own and of its part while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.calls = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        self.last = self.layer(inputs)
        self.layer.seen = len(inputs)
        if not hasattr(self, "lazily"):
            self.lazily = lambda x: self.layer(x)
            self.parts = [self.layer]
        return self.lazily(inputs) + self.parts[0](inputs)


def test_attributes_set_in_forward_are_handed_back() -> None:
    net = Remembering()
    model = tb.to_bayesian(net, tau=0.5)
    for number in range(1, 4):
        outputs = model(X)
        assert net.calls == number
        torch.testing.assert_close(net.last * 2, outputs)
    assert net.layer.seen == 4
    stage = Stage(nn.Sequential(model))
    stage.run([model.sample_weights()], X)
    assert net.calls == 4


def test_what_is_handed_back_refers_to_the_network() -> None:
    """A function or list that a pass makes out of layers must not keep the layers of one draw."""
    net = Remembering()
    model = tb.to_bayesian(net, tau=0.5)
    model(X)
    assert net.parts[0] is net.layer
    torch.testing.assert_close(net.lazily(X), F.linear(X, net.layer.weight, net.layer.bias), rtol=0, atol=0)
    draw = model.sample_weights(generator=5)
    expected = 2 * F.linear(X, draw["layer.weight"], draw["layer.bias"])
    torch.testing.assert_close(model.apply_weights(draw, X), expected)


class Louder(nn.Module):
    """Has a number that a schedule may change, as dropout has its share."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor, self.calls = factor, 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        return self.factor * inputs


@pytest.mark.parametrize("composite", [False, True])
def test_a_stage_runs_the_network_as_it_is_now(composite: bool) -> None:
    """Attributes, parts, parameters and modes that are changed between two passes of one stage."""
    net = nn.Sequential(nn.Linear(3, 2), Louder(), nn.Linear(2, 2, bias=False))
    model = tb.to_bayesian(net, where="0.*")
    stage = Stage(nn.Sequential(model) if composite else model)

    def outputs() -> Tensor:
        return stage.run([{}], X).detach()

    def expected() -> Tensor:
        return (net[1].factor * F.linear(X, net[0].weight, net[0].bias) @ net[2].weight.T).detach()

    torch.testing.assert_close(outputs(), expected())
    net[1].factor = 3.0
    torch.testing.assert_close(outputs(), expected())
    net[1].calls = 10
    outputs()
    assert net[1].calls == 11  # a count that was set goes on from there
    net[1] = Louder(5.0)
    torch.testing.assert_close(outputs(), expected())
    net[2].weight = nn.Parameter(-net[2].weight.detach())
    torch.testing.assert_close(outputs(), expected())
    net[1] = nn.Dropout(0.999999)
    assert not outputs().any()
    net[1].eval()
    assert outputs().all()


# gradients


class Checkpointed(nn.Module):
    def __init__(self, body: nn.Module, saving: bool) -> None:
        super().__init__()
        self.body, self.saving = body, saving

    def forward(self, inputs: Tensor) -> Tensor:
        return checkpoint(self.body, inputs, use_reentrant=False) if self.saving else self.body(inputs)


@pytest.mark.parametrize("composite", [False, True])
def test_activation_checkpointing_gives_the_gradient_of_the_draw(composite: bool) -> None:
    body = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    net = Checkpointed(body, saving=True)
    model = tb.to_bayesian(net, tau=0.8)
    draw = model.sample_weights(generator=1)
    leaves = list(model.parameters())
    gradients = []
    for saving in (True, False):
        net.saving = saving
        outputs = Stage(nn.Sequential(model)).run([draw], X) if composite else model.apply_weights(draw, X)
        gradients.append(torch.autograd.grad(outputs.square().sum(), leaves, retain_graph=True))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)
    by_means = torch.autograd.grad(body(X).square().sum(), list(body.parameters()))
    assert not torch.allclose(gradients[0][0], by_means[0], rtol=0.01)


def test_a_checkpointed_model_trains_as_one_that_is_not() -> None:
    states = []
    for saving in (True, False):
        torch.manual_seed(0)
        net = Checkpointed(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)), saving)
        model = tb.to_bayesian(net)
        elbo = tb.ELBO(tb.Categorical(), data_size=4, kl_weight=0.01)
        optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.05))
        tb.fit(model, elbo, [(X, torch.tensor([0, 1, 0, 1]))] * 5, optimizer, generator=0, progress=False)
        states.append(model.state_dict())
    for name, value in states[0].items():
        torch.testing.assert_close(value, states[1][name])


# errors and interrupts


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("composite", [False, True])
def test_an_error_inside_the_network_leaves_it_as_it_was(error: type[BaseException], composite: bool) -> None:
    net = Watched()
    model = tb.to_bayesian(net)

    def fail() -> None:
        raise error("inside")

    draw = model.sample_weights(generator=0)
    stage = Stage(nn.Sequential(model) if composite else model)
    before = stage.run([draw], X)
    net.call = fail
    with left_as_it_was(model):
        for call in (lambda: model(X), lambda: model.apply_weights(draw, X), lambda: Stage(model).run([draw], X)):
            with pytest.raises(error, match="inside"):
                call()
        if not composite:  # a stage of a composite model has its twin already, with what was called before
            with pytest.raises(error, match="inside"):
                stage.run([draw], X)
    net.call = lambda: None
    assert torch.equal(stage.run([draw], X), before)
    assert not torch.equal(model(X), model(X))


class Compact(nn.Module):
    """A little of everything that a twin looks at."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = self.first
        self.listed = [self.first]
        self.function = lambda x: self.first(x)

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls = getattr(self, "calls", 0) + 1
        return self.listed[0](self.function(inputs)) + self.second(inputs)


@pytest.mark.parametrize("way", ["apply_weights", "forward", "stage", "composite"])
def test_an_interrupt_at_any_line_leaves_the_model_as_it_was(way: str) -> None:
    model = tb.to_bayesian(Compact())
    draw = model.sample_weights(generator=0)
    expected = model.apply_weights(draw, X)
    composite = Stage(nn.Sequential(model))
    call: Callable[[], object] = {
        "apply_weights": lambda: model.apply_weights(draw, X),
        "forward": lambda: model(X),
        "stage": lambda: Stage(model).run([draw], X),
        "composite": lambda: composite.run([draw], X),
    }[way]
    line = 1
    while True:
        with left_as_it_was(model):
            reached = interrupted_at(line, call)
        if not reached:
            break
        line += 1
    assert line > 30  # all of the pass was gone through
    assert torch.equal(model.apply_weights(draw, X), expected)
    assert torch.equal(composite.run([draw], X), expected)


# threads


@pytest.fixture
def _switching() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def _together(functions: list[Callable[[], None]]) -> None:
    """All at once in threads of their own; errors are raised here."""
    barrier, errors = threading.Barrier(len(functions)), []

    def run(function: Callable[[], None]) -> None:
        try:
            barrier.wait(PATIENCE)
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    if errors:
        raise errors[0]


@pytest.mark.usefixtures("_switching")
@pytest.mark.parametrize("name", ["MLP", "LSTM", "tied weights", "shared submodule", "TransformerEncoderLayer"])
def test_eight_threads_get_each_its_own_answer(name: str) -> None:
    model, inputs = bayesian(name), inputs_of(name)
    draws = [model.sample_weights(generator=seed) for seed in range(8)]
    with torch.no_grad():
        expected = [model.apply_weights(draw, inputs) for draw in draws]
        wrong: list[int] = []

        def ask(number: int) -> None:
            for _ in range(25):
                with torch.no_grad():
                    if not torch.equal(model.apply_weights(draws[number], inputs), expected[number]):
                        wrong.append(number)

        with left_as_it_was(model):
            _together([functools.partial(ask, number) for number in range(8)])
    assert wrong == []


@pytest.mark.usefixtures("_switching")
def test_threads_that_draw_by_themselves_leave_the_parameters_alone() -> None:
    model, inputs = bayesian("MLP"), inputs_of("MLP")
    means = model.apply_weights({}, inputs)
    answers: list[Tensor] = []

    def ask() -> None:
        answers.extend(model(inputs).detach() for _ in range(25))

    def ask_means() -> None:
        for _ in range(25):
            assert torch.equal(model.apply_weights({}, inputs), means)

    with left_as_it_was(model):
        _together([ask] * 7 + [ask_means])
    assert len(torch.stack(answers).unique(dim=0)) == 7 * 25  # a draw of its own for every call


@pytest.mark.usefixtures("_switching")
def test_a_prediction_beside_forward_passes_is_the_one_alone() -> None:
    model, inputs = bayesian("MLP"), inputs_of("MLP")
    alone = tb.predict(model, inputs, 20, progress=False).samples
    beside: list[Tensor] = []

    def predict() -> None:
        beside.append(tb.predict(model, inputs, 20, progress=False).samples)

    def ask() -> None:
        for _ in range(25):
            model(inputs)

    with left_as_it_was(model):
        _together([predict, predict, *[ask] * 6])
    assert len(beside) == 2
    assert all(torch.equal(samples, alone) for samples in beside)


# compiled networks


class Own(nn.Module):
    """Two layers in a class of this file: torch does not compile the frames of its own containers."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.two(torch.tanh(self.one(inputs)))


@pytest.fixture
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def _expected(draw: dict[str, Tensor]) -> Tensor:
    one, one_bias, two, two_bias = draw.values()
    return F.linear(torch.tanh(F.linear(X, one, one_bias)), two, two_bias)


compiling = [
    pytest.mark.usefixtures("_fresh_compiler"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    draws_are_compiled,
]


class TestCompiled:
    pytestmark = compiling

    @pytest.mark.parametrize("in_place", [False, True])
    def test_a_network_compiled_before_its_conversion(self, in_place: bool) -> None:
        counter, net = CompileCounterWithBackend("eager"), Own()
        if in_place:
            net.compile(backend=counter)
        model = tb.to_bayesian(net if in_place else torch.compile(net, backend=counter), tau=0.5)
        with left_as_it_was(model):
            for seed in range(4):
                draw = model.sample_weights(generator=seed)
                torch.testing.assert_close(model.apply_weights(draw, X), _expected(draw))
        assert counter.frame_count == 1  # compiled once, by the backend that was asked for
        assert all(parameter is net.get_parameter(name) for name, parameter in Own.named_parameters(net))

    def test_a_number_that_changes_in_the_midst_of_a_training(self) -> None:
        net = nn.Sequential(nn.Linear(3, 2), Louder())
        model = tb.to_bayesian(net)
        compiled = torch.compile(model, backend="eager")
        optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.01))
        step = tb.TrainingStep(compiled, tb.ELBO(tb.Gaussian(), data_size=4), optimizer)
        assert step(X, X[:, :2]).outputs.any()
        net[1].factor = 0.0
        assert not step(X, X[:, :2]).outputs.any()

    @pytest.mark.parametrize("in_place", [False, True])
    def test_a_model_compiled_after_its_conversion(self, in_place: bool) -> None:
        counter = CompileCounterWithBackend("eager")
        model = tb.to_bayesian(Own(), tau=0.5)
        if in_place:
            model.compile(backend=counter)
        compiled = model if in_place else torch.compile(model, backend=counter)
        with left_as_it_was(model):
            assert not torch.equal(compiled(X), compiled(X))
            assert counter.frame_count == 1
            stage = Stage(compiled)
            for seed in range(4):
                draw = model.sample_weights(generator=seed)
                torch.testing.assert_close(stage.run([draw], X), _expected(draw))
        assert counter.frame_count == 2  # once more for weights that are given

    @pytest.mark.parametrize("in_place", [False, True])
    def test_a_part_of_a_network_that_is_compiled(self, in_place: bool) -> None:
        counter, part = CompileCounterWithBackend("eager"), Own()
        if in_place:
            part.compile(backend=counter)
        net = nn.Sequential(nn.Identity(), part if in_place else torch.compile(part, backend=counter))
        model = tb.to_bayesian(net, tau=0.5)
        for seed in range(4):
            draw = model.sample_weights(generator=seed)
            torch.testing.assert_close(model.apply_weights(draw, X), _expected(draw))
        assert counter.frame_count == 1

    def test_the_gradients_of_a_compiled_network_are_those_of_the_draw(self) -> None:
        net = Own()
        model = tb.to_bayesian(torch.compile(net, backend="aot_eager"), tau=0.5)
        draw = model.sample_weights(generator=1)
        leaves = list(model.parameters())
        ours = torch.autograd.grad(model.apply_weights(draw, X).square().sum(), leaves, retain_graph=True)
        theirs = torch.autograd.grad(_expected(draw).square().sum(), leaves)
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other)


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
