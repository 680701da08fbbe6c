"""Twins of networks by `torch.compile`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend

import tribayes as tb
from tests.compiling import draws_are_compiled
from tests.networks import left_as_it_was
from tests.nn.twins import Louder, X
from tribayes.nn.stage import Stage


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
