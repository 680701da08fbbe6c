"""Prediction leaves the model and the random state as they were, whichever way it ends."""

import signal
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import tribayes as tb
from tests.networks import same_tensors
from tests.prediction.models import CLASSES, FEATURES, classifier, inputs, predict, seeded

TINY = 1e-9  # relative scale of weights that do not visibly vary


class Restless(nn.Module):
    """Changes its buffers in every way, uses the global random state, and can be stopped in its tracks."""

    calls: Tensor
    log: Tensor
    cache: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, 6)
        self.norm = nn.BatchNorm1d(6)
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(6, CLASSES)
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("log", torch.zeros(3), persistent=False)
        self.register_buffer("cache", None)
        self.interruption: Callable[[], object] | None = None
        self.seen: list[tuple[bool, bool]] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append((self.training, torch.is_grad_enabled()))
        self.calls += 1  # in place
        self.log = self.log + 1  # a new tensor under the old name
        self.cache = x.mean()  # a tensor where there was none
        noise = torch.rand(())
        if self.interruption and len(self.seen) == 5:
            self.interruption()
        return self.head(self.dropout(self.norm(self.layer(x)))) + 0 * noise


def restless() -> tb.BayesianModule:
    """In training mode, but for one layer, with running statistics that are not the initial ones."""
    model = tb.to_bayesian(seeded(Restless), tau=0.3)
    norm = model.module.norm
    norm.running_mean.copy_(torch.linspace(-1, 1, 6))
    norm.running_var.copy_(torch.linspace(0.5, 2, 6))
    model.train()
    model.module.dropout.eval()
    return model


def snapshot(model: nn.Module) -> tuple[object, ...]:
    """Everything a caller could notice, as plain values."""
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return (
        {name: module.training for name, module in model.named_modules()},
        {name: (id(value), value.tolist(), value.requires_grad) for name, value in tensors.items()},
        {name: value.grad for name, value in model.named_parameters()},
        [module.held for module in model.modules() if isinstance(module, tb.BayesianModule)],
        torch.get_rng_state().tolist(),
        torch.is_grad_enabled(),
    )


def fail() -> None:
    raise RuntimeError("broken network")


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def _ctrl_c_is_heard() -> Iterator[None]:
    """A process started in the background ignores Ctrl-C; these tests send it to themselves."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


ENDS: dict[str, tuple[Callable[[], object], type[BaseException]]] = {
    "error": (fail, RuntimeError),
    "interruption": (interrupt, KeyboardInterrupt),
    "Ctrl-C": (lambda: signal.raise_signal(signal.SIGINT), KeyboardInterrupt),
}


@pytest.mark.parametrize("keep_samples", [True, False])
def test_nothing_has_changed_afterwards(keep_samples: bool) -> None:
    model = restless()
    before = snapshot(model)
    predict(model, inputs(), 4, keep_samples=keep_samples)
    assert len(model.module.seen) >= 4
    assert snapshot(model) == before


@pytest.mark.parametrize("progress", [True, False])
@pytest.mark.parametrize("end", ENDS)
def test_nothing_has_changed_when_it_is_stopped(end: str, progress: bool) -> None:
    model = restless()
    model.module.interruption, kind = ENDS[end]
    before = snapshot(model)
    with pytest.raises(kind):
        tb.predict(model, inputs(), 20, progress=progress)
    assert len(model.module.seen) == 5  # it stopped at once
    assert snapshot(model) == before


@pytest.mark.parametrize("end", ENDS)
def test_after_being_stopped_it_works_again(end: str) -> None:
    model = restless()
    expected = predict(model, inputs(), 6).samples
    model.module.seen.clear()
    model.module.interruption, kind = ENDS[end]
    with pytest.raises(kind):
        predict(model, inputs(), 6)
    model.module.interruption = None
    assert torch.equal(predict(model, inputs(), 6).samples, expected)


def test_an_error_of_the_loader_changes_nothing_either() -> None:
    model = restless()
    before = snapshot(model)

    def broken():
        yield inputs()
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        predict(model, broken(), 4, chunk_size=5)
    assert snapshot(model) == before


def test_inside_it_evaluates_without_gradients() -> None:
    model = restless()
    pred = predict(model, inputs(), 3)
    assert set(model.module.seen) == {(False, False)}
    assert not pred.samples.requires_grad


def test_batch_norm_uses_its_running_statistics_and_dropout_is_off() -> None:
    """By hand, with weights that hardly vary: y = head((layer(x) − mean)/√(var + ε))."""
    net = restless().module
    model = tb.to_bayesian(net, tau=TINY).train()
    normal = (net.layer(inputs()) - net.norm.running_mean) / (net.norm.running_var + net.norm.eps).sqrt()
    expected = net.head(normal * net.norm.weight + net.norm.bias).softmax(-1).detach()
    pred = predict(model, inputs(), 3, batch_size=2)
    torch.testing.assert_close(pred.samples, expected.expand(3, -1, -1), rtol=1e-6, atol=1e-8)


def test_batch_norm_without_running_statistics_uses_those_of_the_batch() -> None:
    """What torch does in evaluation mode, too; predictions of such a model do depend on the batch size."""
    net = seeded(lambda: nn.Sequential(nn.BatchNorm1d(FEATURES, track_running_stats=False), nn.Linear(FEATURES, 3)))
    model = tb.to_bayesian(net, tau=TINY)
    pred = predict(model, inputs(), 1)
    standard = (inputs() - inputs().mean(0)) / (inputs().var(0, correction=0) + 1e-5).sqrt()
    torch.testing.assert_close(pred.samples[0], net[1](standard).softmax(-1).detach(), rtol=1e-6, atol=1e-8)


def test_global_randomness_of_a_shuffling_loader_is_put_back() -> None:
    before = torch.get_rng_state()
    predict(classifier(), DataLoader(inputs(), batch_size=4, shuffle=True), 2)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_global_random_state_does_not_matter() -> None:
    torch.manual_seed(1)
    one = predict(classifier(), inputs(), 2).samples
    torch.manual_seed(2)
    assert torch.equal(predict(classifier(), inputs(), 2).samples, one)


def test_a_backward_pass_that_is_pending_still_works() -> None:
    """Buffers that did not change are not written to: autograd would refuse to use them."""

    class Scaled(nn.Module):
        scale: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.full((FEATURES,), 2.0))
            self.head = nn.Linear(FEATURES, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(x * self.scale)

    model = tb.to_bayesian(seeded(Scaled))
    x = inputs().requires_grad_()
    loss = model(x).square().sum()
    predict(model, inputs(), 2)
    loss.backward()
    assert x.grad.abs().min() > 0


def test_buffers_are_put_back_value_by_value() -> None:
    """A state dict taken before is the state dict taken after."""
    model = restless()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    predict(model, inputs(), 3)
    assert same_tensors(dict(model.state_dict()), before)
