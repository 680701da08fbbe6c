"""`torch.func.vmap` over a stack of draws is the loop over them, in values and gradients."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import vmap

import tribayes as tb
from tests.networks import NETWORKS, any_family, bayesian, inputs_of

DRAWS = 3
Run = Callable[[tb.BayesianModule, dict[str, Tensor], Tensor], Tensor]
RECURRENT = ("LSTM", "GRU")

# Where torch has no batching rule it loops inside, says so, and is right all the same.
pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")

any_batched_network = pytest.mark.parametrize("name", [name for name in NETWORKS if name not in RECURRENT])


def looped(model: tb.BayesianModule, stack: dict[str, Tensor], inputs: Tensor) -> Tensor:
    draws = [{key: value[draw] for key, value in stack.items()} for draw in range(DRAWS)]
    return torch.stack([model.apply_weights(weights, inputs) for weights in draws])


def batched(model: tb.BayesianModule, stack: dict[str, Tensor], inputs: Tensor) -> Tensor:
    return vmap(model.apply_weights, in_dims=(0, None))(stack, inputs)


@any_batched_network
@any_family
def test_vmap_is_the_loop(name: str, family: str) -> None:
    model, inputs = bayesian(name, family=family), inputs_of(name)
    stack = model.sample_weights(DRAWS, generator=0)
    with torch.no_grad():
        torch.testing.assert_close(batched(model, stack, inputs), looped(model, stack, inputs), rtol=0, atol=1e-13)


def gradients(run: Run, model: tb.BayesianModule, inputs: Tensor) -> tuple[Tensor, ...]:
    outputs = run(model, model.sample_weights(DRAWS, generator=0), inputs)
    learned = [p for p in model.parameters() if p.requires_grad]
    return torch.autograd.grad(outputs.square().sum(), learned)


@any_batched_network
@any_family
def test_vmap_has_the_loops_gradients(name: str, family: str) -> None:
    # In training mode: attention in evaluation mode takes a path that has no derivative under vmap.
    model, inputs = bayesian(name, family=family).train(), inputs_of(name)
    _keep_statistics(model)
    one, other = gradients(batched, model, inputs), gradients(looped, model, inputs)
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-13)


def _keep_statistics(model: nn.Module) -> None:
    """BatchNorm in training updates its buffers in place, which vmap refuses; evaluation mode is the way."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.eval()


@pytest.mark.parametrize("name", RECURRENT)
@pytest.mark.xfail(raises=RuntimeError, strict=True, reason="torch has no batching rule for lstm and gru")
def test_recurrent_layers_cannot_be_batched_yet(name: str) -> None:
    model = bayesian(name)
    batched(model, model.sample_weights(DRAWS), inputs_of(name))


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_can_be_looped(name: str) -> None:
    model, inputs = bayesian(name), inputs_of(name)
    outputs = looped(model, model.sample_weights(DRAWS, generator=0), inputs)
    assert (outputs[0] != outputs[1]).all()
    assert (outputs[1] != outputs[2]).all()
