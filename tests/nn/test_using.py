"""A draw in the network for any code, in one thread and one block; and what of the network shows on its wrapper."""

from __future__ import annotations

import copy
import pickle
import threading
from inspect import signature

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tribayes as tb
from tests.networks import left_as_it_was
from tests.patience import PATIENCE
from tests.prediction.models import refused

X = torch.linspace(-1, 1, 12).reshape(4, 3)


class Net(nn.Module):
    """A network with more than a forward."""

    title = "a net"

    def __init__(self) -> None:
        super().__init__()
        self.config = {"width": 2}
        self.layer = nn.Linear(3, 2)
        self.register_buffer("seen", torch.zeros(()))
        self.calls = 0
        self._hidden = "private"
        self.layout = "the wrapper has one of its own"

    @property
    def width(self) -> int:
        return self.config["width"]

    def forward(self, inputs: Tensor, scale: float = 1.0) -> Tensor:
        self.calls += 1
        return scale * self.features(inputs)

    def features(self, inputs: Tensor) -> Tensor:
        return self.layer(inputs)


def model_of(net: nn.Module | None = None) -> tb.BayesianModule:
    torch.manual_seed(0)
    return tb.to_bayesian(net or Net(), tau=0.5)


def under(draw: dict[str, Tensor]) -> Tensor:
    return F.linear(X, draw["layer.weight"], draw["layer.bias"])


def test_any_code_meets_the_draw() -> None:
    model = model_of()
    draw = model.sample_weights(generator=1)
    with left_as_it_was(model), model.using(draw) as network:
        assert torch.equal(network.features(X), under(draw))
        assert torch.equal(network(X, scale=2.0), 2 * under(draw))
        assert torch.equal(model(X), under(draw))
        assert torch.equal(model.features(X), under(draw))
        assert model.layer is network.layer
        assert network is not model.module
        assert torch.equal(model.module.features(X), F.linear(X, model.module.layer.weight, model.module.layer.bias))
    assert not torch.equal(model(X), under(draw))


def test_gradients_reach_the_posterior_through_the_block() -> None:
    model = model_of()
    with model.using(model.sample_weights(generator=1)) as network:
        network.features(X).sum().backward()
    assert all(mean.grad.any() for _, mean in model.means())
    assert model.family.delta.grad.all()


def test_blocks_nest_and_end_with_an_error_too() -> None:
    model, other = model_of(), model_of()
    first, second = (model.sample_weights(generator=seed) for seed in (1, 2))

    def fail() -> None:
        with model.using(second), other.using(first):
            assert torch.equal(model(X), under(second))
            assert torch.equal(other(X), under(first))
            raise KeyError

    with model.using(first):
        with pytest.raises(KeyError):
            fail()
        assert torch.equal(model(X), under(first))
    with pytest.raises(AttributeError):
        _ = model.features


def test_other_threads_draw_as_ever() -> None:
    model = model_of()
    draws = [model.sample_weights(generator=seed) for seed in range(2)]
    barrier, found = threading.Barrier(3), {}

    def ask(number: int) -> None:
        with model.using(draws[number]):
            barrier.wait(PATIENCE)
            found[number] = model(X)
            barrier.wait(PATIENCE)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    barrier.wait(PATIENCE)  # both are inside their blocks
    mine = model(X)
    with pytest.raises(AttributeError):
        _ = model.features
    barrier.wait(PATIENCE)
    for thread in threads:
        thread.join(PATIENCE)
    assert all(torch.equal(found[number], under(draw)) for number, draw in enumerate(draws))
    assert all(not torch.equal(mine, outputs) for outputs in found.values())


def test_a_prediction_within_draws_its_own() -> None:
    model = model_of()
    expected = tb.predict(model, X, 3, progress=False).samples
    with model.using(model.sample_weights(generator=1)):
        assert torch.equal(tb.predict(model, X, 3, progress=False).samples, expected)


def test_what_the_network_sets_on_itself_is_handed_back() -> None:
    model = model_of()
    with model.using({}) as network:
        network(X)
        network(X)
        assert model.module.calls == 0
    assert model.module.calls == 2


def test_bad_weights_are_refused_before_the_block_begins() -> None:
    model = model_of()
    with (
        refused(
            "`weights` (='fc') must name a random parameter of the network; choose among layer.weight, layer.bias."
        ),
        model.using({"fc": X}),
    ):
        pytest.fail("entered")


def test_plain_attributes_of_the_network_show() -> None:
    model = model_of()
    net = model.module
    assert model.config is net.config
    assert (model.width, model.title, model.calls) == (2, "a net", 0)
    assert model.seen is net.seen
    assert isinstance(model.layout, Tensor)  # the wrapper's own
    for name in ("_hidden", "nothing", "_nothing"):
        with pytest.raises(AttributeError, match=rf"object has no attribute '{name}'$"):
            getattr(model, name)
    assert getattr(model, "nothing", 3) == 3


@pytest.mark.parametrize(("name", "kind"), [("features", "a method"), ("layer", "a part")])
def test_what_would_mean_the_means_is_refused(name: str, kind: str) -> None:
    text = (
        f"{name!r} is {kind} of the wrapped Net, which knows nothing of draws; for one draw write "
        f"`with model.using(model.sample_weights()) as network: network.{name}`, for the means `model.module.{name}`."
    )
    with refused(text, AttributeError):
        getattr(model_of(), name)
    assert not hasattr(model_of(), name)


def test_a_mean_is_refused_as_well() -> None:
    with pytest.raises(AttributeError, match="'weight' is a part of the wrapped Linear"):
        _ = tb.nn.Linear(3, 2).weight


def test_copies_show_their_own_network() -> None:
    model = model_of()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.copy(model)):
        assert other.config == {"width": 2}
        assert signature(other.forward) == signature(model.module.forward)
        draw = other.sample_weights(generator=1)
        with other.using(draw):
            assert torch.equal(other(X), under(draw))
    assert copy.deepcopy(model).config is not model.config


def test_a_compiled_model_shows_what_its_model_does() -> None:
    model = model_of()
    compiled = torch.compile(model, backend="eager")
    assert compiled.config is model.config
    assert compiled(X, scale=0.0).abs().max() == 0


def test_the_signature_is_the_networks_and_the_class_has_its_own() -> None:
    assert str(signature(model_of().forward)) == str(signature(Net().forward))
    # "labels" for transformers' Trainer, which looks for them in the class
    assert list(signature(tb.BayesianModule.forward).parameters) == ["self", "args", "labels", "kwargs"]
    assert "fresh draw" in model_of().forward.__doc__
