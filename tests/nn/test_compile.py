"""`torch.compile(fullgraph=True)` of a Bayesian model: no graph break, and the numbers of the plain call.

With backend="eager" the compiler captures the graph and runs it as it is, random numbers included, so a seed
gives the very same output. One model goes through the default backend, with numbers that stand for noise.
"""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

import tribayes as tb
from tests.compiling import draws_are_compiled
from tests.networks import NETWORKS, any_family, any_network, bayesian, inputs_of
from tribayes.posterior.draw import plain

# torch's compiler uses what torch has deprecated
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"), draws_are_compiled]


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    torch.distributions.kl._KL_MEMOIZE.clear()  # a divergence found before would not be looked up in the graph
    with torch._dynamo.config.patch(allow_rnn=True):  # off by default: LSTM and GRU count as experimental
        yield
    torch._dynamo.reset()


def under_seed(function: Callable[..., Tensor], *arguments: object) -> Tensor:
    torch.manual_seed(0)
    return function(*arguments)


@any_network
def test_a_forward_pass_compiles_to_one_graph(name: str) -> None:
    model, inputs = bayesian(name), inputs_of(name)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    # to rounding: uncompiled, a draw on a CPU reads its scalars as Python numbers
    torch.testing.assert_close(under_seed(compiled, inputs), under_seed(model, inputs), rtol=1e-12, atol=1e-14)
    assert (compiled(inputs) != compiled(inputs)).all()  # the noise is not part of the graph


@any_family
def test_every_family_compiles_with_its_divergence(family: str) -> None:
    model, inputs = bayesian("MLP", family=family), inputs_of("MLP")

    def both(x: Tensor) -> Tensor:
        return model(x).sum() + model.kl()

    compiled = torch.compile(both, fullgraph=True, backend="eager")
    torch.testing.assert_close(under_seed(compiled, inputs), under_seed(both, inputs), rtol=1e-12, atol=1e-14)


def loss_and_gradients(elbo: Callable[..., tb.ELBOTerms], model: tb.BayesianModule) -> list[Tensor]:
    inputs = NETWORKS["Conv2d"].inputs()
    loss = under_seed(elbo, model, inputs, torch.tensor([0, 1, 0])).loss
    return [loss, *torch.autograd.grad(loss, list(model.parameters()))]


def waves(size: int, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Numbers that look like noise and need no random state: a compiler may reorder or replace random numbers."""
    del generator
    return torch.arange(size, dtype=like.dtype).mul(2.7).sin()


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_the_objective_and_its_gradients_compile_to_one_graph(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "standard_normals", waves)  # compiled or not
    model = bayesian("Conv2d").float()
    elbo = tb.ELBO(tb.Categorical(), data_size=10, samples=2)
    compiled = loss_and_gradients(torch.compile(elbo, fullgraph=True, backend=backend), model)
    torch.testing.assert_close(compiled, loss_and_gradients(elbo, model), rtol=1e-5, atol=1e-6)
