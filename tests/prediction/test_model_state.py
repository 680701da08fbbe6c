"""Prediction leaves the model and torch's modes as they are, while it runs and whichever way it ends."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import tribayes as tb
from tests.interrupts import interrupted_at
from tests.networks import any_network, bayesian, inputs_of, same_tensors
from tests.prediction.models import CLASSES, FEATURES, classifier, cut_chunks, inputs, predict, seeded

TINY = 1e-9  # relative scale of weights that do not visibly vary


class Restless(nn.Module):
    """Changes its buffers and attributes in every way, and can be stopped in its tracks."""

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
        self.passes, self.last = 0, None
        self.interruption: Callable[[], object] | None = None
        self.seen: list[tuple[bool, bool]] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append((self.training, torch.is_grad_enabled()))
        self.calls += 1  # in place
        self.log = self.log + 1  # a new tensor under the old name
        self.cache = x.mean()  # a tensor where there was none
        self.passes, self.last = self.passes + 1, x
        if self.interruption and len(self.seen) == 5:
            self.interruption()
        return self.head(self.dropout(self.norm(self.layer(x))))


def restless() -> tb.BayesianModule:
    """In training mode, but for one layer, with running statistics that are not the initial ones."""
    model = tb.to_bayesian(seeded(Restless), tau=0.3)
    norm = model.module.norm
    norm.running_mean.copy_(torch.linspace(-1, 1, 6))
    norm.running_var.copy_(torch.linspace(0.5, 2, 6))
    model.train()
    model.module.dropout.eval()
    return model


def state(model: nn.Module) -> tuple[object, ...]:
    """Everything of a model a caller could notice, as plain values."""
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return (
        {name: module.training for name, module in model.named_modules()},
        {name: (id(value), type(value), value.tolist(), value.requires_grad) for name, value in tensors.items()},
        {name: value.grad for name, value in model.named_parameters()},
        {name: {key: id(value) for key, value in vars(module).items()} for name, module in model.named_modules()},
        [module._given for module in model.modules() if isinstance(module, tb.BayesianModule)],
    )


def snapshot(model: nn.Module) -> tuple[object, ...]:
    """The same, and torch's own state."""
    modes = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    return (*state(model), torch.get_rng_state().tolist(), modes)


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


@any_network
def test_no_kind_of_network_has_changed_afterwards(name: str) -> None:
    model = bayesian(name).train()
    before = snapshot(model)
    predict(model, inputs_of(name), 3)
    assert snapshot(model) == before


def test_nothing_has_changed_meanwhile() -> None:
    """Seen from inside each pass: the layers that run are twins of the model's."""
    model, seen = restless(), []

    def look(layer: nn.Module, *_: object) -> None:
        seen.append((*state(model), torch.get_rng_state().tolist()))
        assert layer is not model.module.norm
        assert layer.weight is model.module.norm.weight  # not random
        assert not layer.training

    model.module.norm.register_forward_hook(look)
    before = (*state(model), torch.get_rng_state().tolist())
    predict(model, inputs(), 4)
    assert seen == [before] * 5


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


def test_an_error_of_the_loader_changes_nothing_either(monkeypatch: pytest.MonkeyPatch) -> None:
    model = restless()
    before = snapshot(model)

    def broken() -> Iterator[Tensor]:
        yield inputs()
        raise OSError("disk")

    cut_chunks(monkeypatch, 5, samples=4)
    with pytest.raises(OSError, match="disk"):
        predict(model, broken(), 4)
    assert snapshot(model) == before


ANYWHERE = ("",)
MODES = ("predict.py", "grad_mode.py", "autocast_mode.py", "contextlib.py")
CORE = ("predict.py", "sampled.py", "stage.py", "twin.py", "moments.py")
INTERRUPTED: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "sampled networks": (ANYWHERE, {"samples": 2}),
    "half precision": (MODES, {"samples": 2, "precision": torch.bfloat16}),
    "moments": (CORE, {"samples": tb.Moments(4)}),
    "as many as it takes": (CORE, {"samples": tb.AutoSamples(first=2, cap=3, tolerance=1e-9), "keep_samples": False}),
}


@pytest.mark.parametrize("kind", INTERRUPTED)
def test_an_interrupt_at_any_line_leaves_the_model_as_it_was(kind: str) -> None:
    files, options = INTERRUPTED[kind]
    net = seeded(lambda: nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.ReLU(), nn.Linear(2, 2)))
    model, x = tb.to_bayesian(net.float(), tau=0.5).train(), torch.tensor([[1.0, -2.0]])
    expected, before = predict(model, x, **options), snapshot(model)
    line = 1
    while interrupted_at(line, lambda: predict(model, x, **options), files):
        assert snapshot(model) == before, f"after an interrupt at line {line}"
        line += 1
    assert line > 50  # it ran through
    again = predict(model, x, **options)
    assert torch.equal(again.mean, expected.mean)
    assert again.origin == expected.origin
    assert snapshot(model) == before


def test_inside_it_evaluates_without_gradients() -> None:
    model = restless()
    pred = predict(model, inputs(), 3)
    assert set(model.module.seen) == {(False, False)}
    assert not pred.samples.requires_grad


@pytest.mark.parametrize("gradients", [True, False])
def test_a_caller_with_or_without_gradients_stays_so(gradients: bool) -> None:
    with torch.set_grad_enabled(gradients):
        predict(classifier(), inputs(), 2)
        assert torch.is_grad_enabled() is gradients


def test_a_callers_autocast_goes_on() -> None:
    with torch.autocast("cpu", torch.float16):
        predict(classifier().float(), inputs().float(), 2, precision=torch.bfloat16)
        assert torch.is_autocast_enabled("cpu")
        assert torch.get_autocast_dtype("cpu") == torch.float16


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


def test_a_shuffling_loader_takes_its_own_randomness_and_no_more() -> None:
    """A permutation has a seed from torch's generator: as much is gone as by reading the loader without predicting."""
    loader = DataLoader(inputs(), batch_size=4, shuffle=True)
    torch.manual_seed(5)
    order = torch.cat(list(loader))
    after = torch.get_rng_state()
    torch.manual_seed(5)
    pred = predict(classifier(), loader, 2)
    assert torch.equal(torch.get_rng_state(), after)
    torch.testing.assert_close(pred.samples, predict(classifier(), order, 2).samples, rtol=1e-12, atol=1e-14)


def test_a_network_that_draws_takes_its_own_randomness_and_no_more() -> None:
    """One pass at the means, to learn the width of an answer, and one per sample: four numbers drawn each."""

    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(FEATURES, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(x + torch.rand(FEATURES, dtype=x.dtype))

    torch.manual_seed(5)
    for _ in range(1 + 3):
        torch.rand(FEATURES, dtype=torch.float64)
    after = torch.get_rng_state()
    torch.manual_seed(5)
    predict(tb.to_bayesian(seeded(Noisy)), inputs(), 3)
    assert torch.equal(torch.get_rng_state(), after)


def test_the_global_random_state_does_not_matter() -> None:
    torch.manual_seed(1)
    one = predict(classifier(), inputs(), 2).samples
    torch.manual_seed(2)
    assert torch.equal(predict(classifier(), inputs(), 2).samples, one)


def test_a_backward_pass_that_is_pending_still_works() -> None:
    """Buffers are not written to: autograd would refuse to use them."""

    class Scaled(nn.Module):
        scale: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.full((FEATURES,), 2.0))
            self.head = nn.Linear(FEATURES, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            outputs = self.head(x * self.scale)
            if not self.training:
                self.scale.mul_(1.0)
            return outputs

    model = tb.to_bayesian(seeded(Scaled)).train()
    x = inputs().requires_grad_()
    loss = model(x).square().sum()
    predict(model, inputs(), 2)
    loss.backward()
    assert x.grad.abs().min() > 0


def test_buffers_are_the_same_value_by_value() -> None:
    """A state dict taken before is the state dict taken after."""
    model = restless()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    predict(model, inputs(), 3)
    assert same_tensors(dict(model.state_dict()), before)


def test_passes_of_one_prediction_see_each_others_buffers() -> None:
    """As those of a network in evaluation mode do; the next prediction begins where the model is."""
    model, counts = restless(), []
    model.module.register_forward_hook(lambda layer, *_: counts.append(layer.calls.item()))
    for _ in range(2):
        predict(model, inputs(), 2)
    assert counts == [1, 2, 3] * 2
