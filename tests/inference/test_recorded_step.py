"""What a recording copies in and what it freezes, where there is no GPU: `Frozen` stands in for a CUDA graph.

tests/gpu/test_step.py has the same with real graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tribayes import _graphs

STEPS = 12
Make = Callable[[tb.BayesianModule], torch.optim.Optimizer]


def sgd(model: tb.BayesianModule) -> torch.optim.Optimizer:
    return torch.optim.SGD(tb.parameter_groups(model, lr=0.05), momentum=0.9, fused=True)


def adam(model: tb.BayesianModule) -> torch.optim.Optimizer:
    return torch.optim.Adam(tb.parameter_groups(model, lr=0.01))  # its update stays outside of the recording


class Training:
    """A small model on its way, with schedules of the rate and of the weight of the divergence."""

    def __init__(self, make: Make) -> None:
        torch.manual_seed(0)
        self.model = tb.to_bayesian(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), prior=tb.Prior())
        self.elbo = tb.ELBO(tb.Categorical(), data_size=20, kl_weight=lambda step: 0.1 * (1 + step) / STEPS)
        self.optimizer = make(self.model)
        self.rates = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: 1 / (1 + step))
        generator = torch.Generator().manual_seed(1)
        self.step = tb.TrainingStep(self.model, self.elbo, self.optimizer, generator=generator)

    def losses(self, sizes: list[int] | None = None) -> list[float]:
        source = torch.Generator().manual_seed(2)
        found = []
        for size in sizes or [6] * STEPS:
            batch = torch.randn(size, 4, generator=source), torch.randint(3, (size,), generator=source)
            found.append(float(self.step(*batch).loss))
            self.rates.step()
        return found


Form = tuple[list[dict[str, Any]], list[bool]]


def form_of(model: nn.Module) -> Form:
    """Modes and other numbers, and what learns."""
    numbers = [
        {name: value for name, value in vars(part).items() if isinstance(value, float | int)}
        for part in model.modules()
    ]
    return numbers, [value.requires_grad for value in model.parameters()]


def put_form(model: nn.Module, form: Form) -> None:
    for part, numbers in zip(model.modules(), form[0], strict=True):
        vars(part).update(numbers)
    for value, learns in zip(model.parameters(), form[1], strict=True):
        value.requires_grad_(learns)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Callable[[Make], tuple[Training, list[int]]]:
    """A training whose steps are recorded, and how often each recording was replayed."""

    def begin(make: Make) -> tuple[Training, list[int]]:
        training, replays = Training(make), []

        class Frozen:
            """Runs the same work again: the host's numbers as they were, tensors as they are now."""

            def __init__(self, run: Callable[[], Any], *_: object) -> None:
                self.run, self.number = run, len(replays)
                self.groups = training.optimizer.param_groups
                self.rates = [group["lr"] for group in self.groups]
                self.gradients = [(p, p.grad) for group in self.groups for p in group["params"]]
                self.form = form_of(training.model)
                replays.append(0)

            def replay(self) -> Any:
                rates, form = [group["lr"] for group in self.groups], form_of(training.model)
                with monkeypatch.context() as frozen:
                    frozen.setattr(training.elbo, "nu", lambda _: pytest.fail("a recording cannot ask the host"))
                    self.put(self.rates)
                    put_form(training.model, self.form)
                    result = self.run()
                    self.put(rates)
                    put_form(training.model, form)
                for parameter, place in self.gradients:  # a graph writes where it wrote when it was recorded
                    if place is not None:
                        place.copy_(parameter.grad)
                replays[self.number] += 1
                return result

            def put(self, rates: list[Any]) -> None:
                for group, rate in zip(self.groups, rates, strict=True):
                    group["lr"] = rate

        monkeypatch.setattr(_graphs, "Recording", Frozen)
        training.step._capture = True
        return training, replays

    return begin


@pytest.mark.parametrize("make", [sgd, adam])
def test_rates_and_weights_of_the_divergence_follow_their_schedules(make: Make, recorded: Any) -> None:
    plain, (training, replays) = Training(make), recorded(make)
    assert training.losses() == pytest.approx(plain.losses(), rel=1e-5)
    assert replays == [STEPS - 3]
    assert training.step.captured
    for one, other in zip(training.model.parameters(), plain.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)


def test_a_frozen_rate_would_be_seen(recorded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were rates not copied in, losses would be others: the stand-in can tell."""
    plain, (training, _) = Training(sgd), recorded(sgd)
    monkeypatch.setattr(Tensor, "fill_", lambda place, _: place)
    found = training.losses()
    monkeypatch.undo()
    assert found != pytest.approx(plain.losses(), rel=1e-5)


def test_a_batch_of_another_shape_is_run_as_it_is(recorded: Any) -> None:
    sizes = [6, 6, 6, 6, 6, 2, 6]
    plain, (training, replays) = Training(sgd), recorded(sgd)
    assert training.losses(sizes) == pytest.approx(plain.losses(sizes), rel=1e-5)
    assert replays == [3]


class Louder(nn.Module):
    """What its mode and its number decide, without random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = 1.0

    def forward(self, x: Tensor) -> Tensor:
        return x.tanh() * self.factor * (2 if self.training else 1)


CHANGES: dict[str, tuple[Callable[[tb.BayesianModule], object], Callable[[tb.BayesianModule], object]]] = {
    "what learns": (
        lambda model: model.module[0].requires_grad_(False),
        lambda model: model.module[0].requires_grad_(True),
    ),
    "modes": (lambda model: model.eval(), lambda model: model.train()),
    "a number": (
        lambda model: setattr(model.module[1], "factor", 0.5),
        lambda model: setattr(model.module[1], "factor", 1),
    ),
    "priors": (lambda model: model.set_prior(tb.Prior(scale=0.1)), lambda model: model.set_prior(tb.Prior())),
}


@pytest.mark.parametrize("make", [sgd, adam])
@pytest.mark.parametrize("change", CHANGES)
def test_a_model_of_another_form_is_recorded_anew(change: str, make: Make, recorded: Any) -> None:
    """Frozen and thawed, or with another mode or prior, in the midst of a training."""
    plain, (training, replays) = Training(make), recorded(make)
    found = []
    for one in (training, plain):
        one.model.module[1] = Louder()
        before = one.losses()
        CHANGES[change][0](one.model)
        frozen = one.model.module[0].weight.detach().clone()
        during = one.losses()
        assert torch.equal(one.model.module[0].weight, frozen) == (change == "what learns")
        CHANGES[change][1](one.model)
        found.append([*before, *during, *one.losses()])
    assert found[0] == pytest.approx(found[1], rel=1e-5)
    assert replays == [STEPS - 3, STEPS - 2, STEPS - 2]


def moved(values: Iterable[Tensor]) -> None:
    """As `model.cpu().cuda()` does with parameters: the same objects, elsewhere in memory."""
    for value in values:
        value.data = value.data.clone()


def buffers_anew(model: nn.Module) -> None:
    """As it does with buffers: others in their places."""
    for part in model.modules():
        part._buffers |= {name: value.clone() for name, value in part._buffers.items() if value is not None}


MOVES: dict[str, Callable[[Training], object]] = {
    "parameters": lambda training: moved(training.model.parameters()),
    "buffers": lambda training: buffers_anew(training.model),
    "the optimizer's state": lambda training: training.optimizer.load_state_dict(training.optimizer.state_dict()),
}


@pytest.mark.parametrize("make", [sgd, adam])
@pytest.mark.parametrize("move", MOVES)
def test_what_lies_elsewhere_now_is_recorded_anew(move: str, make: Make, recorded: Any) -> None:
    """A graph goes on with the places that it was recorded with, whoever holds them by then."""
    plain, (training, replays) = Training(make), recorded(make)
    found = []
    for one in (training, plain):
        before = one.losses()
        MOVES[move](one)
        found.append(before + one.losses())
    assert found[0] == pytest.approx(found[1], rel=1e-5)
    assert replays == [STEPS - 3, STEPS - 2]


def test_a_model_that_always_changes_is_no_longer_recorded(recorded: Any) -> None:
    plain, (training, replays) = Training(sgd), recorded(sgd)
    found = []
    for one in (training, plain):
        one.model.module[1] = Louder()
        found.append([])
        for number in range(160):
            one.model.module[1].factor = 1 + number / 100
            found[-1] += one.losses([6])
    assert found[0] == pytest.approx(found[1], rel=1e-4)
    assert len(replays) == 50
    assert not training.step.captured


@pytest.mark.parametrize("make", [sgd, adam])
def test_a_group_that_is_added_learns_from_then_on(make: Make, recorded: Any) -> None:
    plain, (training, _) = Training(make), recorded(make)
    found = []
    for one in (training, plain):
        late = one.model.module[2].bias
        groups = one.optimizer.param_groups
        for group in groups:
            group["params"] = [value for value in group["params"] if value is not late]
        before = one.losses()
        start = late.detach().clone()
        one.optimizer.add_param_group({"params": [late], "lr": 0.05, "initial_lr": 0.05})
        one.rates = torch.optim.lr_scheduler.LambdaLR(one.optimizer, lambda step: 1 / (1 + step))
        found.append(before + one.losses())
        assert not torch.equal(late, start)
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_another_momentum_leaves_the_update_out_of_a_new_recording(recorded: Any) -> None:
    plain, (training, replays) = Training(sgd), recorded(sgd)
    found = []
    for one in (training, plain):
        first = one.losses()
        one.optimizer.param_groups[0]["momentum"] = 0.5
        found.append(first + one.losses())
    assert found[0] == pytest.approx(found[1], rel=1e-5)
    assert replays == [STEPS - 3, STEPS]
