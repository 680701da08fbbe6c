"""A network runs under a draw as its twin: whatever it is made of, with the right weights, and left as it was."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize
from torch.utils.checkpoint import checkpoint

import tribayes as tb
from tests.interrupts import interrupted_at
from tests.networks import NETWORKS, any_network, left_as_it_was, same_tensors
from tests.nn.twins import Louder, X, twin_of
from tests.patience import PATIENCE
from tribayes.nn.stage import Stage
from tribayes.nn.twin import Twin

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
