"""The trainer's parts against what they claim: Caffe's update, the schedules, the order of the data, the objective."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import tribayes as tb
from tests.compiling import draws_are_compiled
from tribayes.recipes import recipe_trainer
from tribayes.recipes.experiments import experiment
from tribayes.recipes.recipe_trainer import (
    CaffeSGD,
    Parameter,
    RecipeTrainer,
    build_model,
    is_compiled,
    learning_rate,
    warm_up,
)
from tribayes.recipes.setting import SHAPES
from tribayes.runs.batches import Examples, batch_order


def test_the_update_is_caffe_s() -> None:
    values = [torch.tensor([1.0, -2.0], dtype=torch.float64), torch.tensor([0.5], dtype=torch.float64)]
    multipliers, decays = [1.0, 2.0], [0.1, 0.0]
    parameters = [
        Parameter(str(i), value, multiplier, decay)
        for i, (value, multiplier, decay) in enumerate(zip(values, multipliers, decays, strict=True))
    ]
    optimizer = CaffeSGD(parameters, momentum=0.9)
    expected = [value.tolist() for value in values]
    velocity = [[0.0] * len(value) for value in expected]
    for step, rate in enumerate([0.1, 0.05, 0.02]):
        for value in values:
            value.grad = torch.full_like(value, 1.0 + step)
        optimizer.inverse_rate = torch.tensor(1 / rate)
        optimizer.step()
        for i, (multiplier, decay) in enumerate(zip(multipliers, decays, strict=True)):
            for k, weight in enumerate(expected[i]):
                velocity[i][k] = 0.9 * velocity[i][k] + rate * multiplier * (1.0 + step + decay * weight)
                expected[i][k] = weight - velocity[i][k]
    for value, wanted in zip(values, expected, strict=True):
        assert value.tolist() == pytest.approx(wanted, rel=1e-6)  # the rate is in float32


def test_a_parameter_without_a_gradient_is_named() -> None:
    optimizer = CaffeSGD([Parameter("conv1.weight", torch.zeros(2))], momentum=0.9)
    with pytest.raises(RuntimeError, match=r"no gradient reached conv1\.weight"):
        optimizer.step()


def test_the_schedules() -> None:
    lenet, cifar = experiment("mnist-lenet100"), experiment("cifar10")
    assert learning_rate(lenet, 0) == 0.01
    assert learning_rate(lenet, 30_000) == pytest.approx(0.01 * 4**-0.75)
    assert learning_rate(cifar, 39_999) == 0.001
    cosine = cifar.changed(policy="cosine")
    assert learning_rate(cosine, 20_000) == pytest.approx(0.0005)
    assert learning_rate(cosine, 40_000) == pytest.approx(0, abs=1e-18)
    warmed = lenet.changed(kl_warmup=100)
    assert [warm_up(warmed, i) for i in (0, 25, 100, 999)] == [0, 0.25, 1, 1]
    assert warm_up(lenet, 0) == 1


def test_every_epoch_sees_every_example_once_in_an_order_of_its_own() -> None:
    # 10 examples, batches of 4: 10 steps are 4 epochs, and batches run on from one into the next
    order = batch_order(10, 4, 0, 10, seed=3).reshape(4, 10)
    assert all(sorted(epoch.tolist()) == list(range(10)) for epoch in order)
    assert len({tuple(epoch.tolist()) for epoch in order}) == 4
    assert torch.equal(batch_order(10, 4, 3, 5, seed=3), batch_order(10, 4, 0, 10, seed=3)[3:8])
    assert not torch.equal(batch_order(10, 4, 0, 10, seed=3), batch_order(10, 4, 0, 10, seed=4))


def _examples() -> Examples:
    torch.manual_seed(0)
    return Examples(torch.rand(50, 1, 8, 8), torch.randint(0, 10, (50,)))


@pytest.mark.parametrize("estimator", ["plain", "antithetic"])
def test_a_step_minimises_the_paper_s_objective(estimator: str) -> None:
    setting, train = experiment("digits").changed(batch=8, guards="closed_form", estimator=estimator), _examples()
    trainer, twin = RecipeTrainer(setting, train, 4), RecipeTrainer(setting, train, 4)
    trainer.advance(1)
    batch = batch_order(50, 8, 0, 1, 4)[0]
    model = twin.model
    assert isinstance(model, tb.BayesianModule)
    tb.stabilise_(model)
    draws = [model.sample_weights(generator=twin.generator)]
    if estimator == "antithetic":
        draws.append({name: 2 * mean - draws[0][name] for name, mean in model.means()})
    outputs = [model.apply_weights(draw, train.inputs[batch]) for draw in draws]
    nll = torch.stack([torch.nn.functional.cross_entropy(output, train.targets[batch]) for output in outputs]).mean()
    loss = nll + 0.01 / 50 * model.kl()
    torch.testing.assert_close(trainer.window_losses()[0], torch.stack([loss, nll]).detach(), rtol=1e-5, atol=1e-6)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    for (name, value), gradient in zip(trainer.model.named_parameters(), gradients, strict=True):
        kappa = 50.0 if name.endswith("gamma") else 1.0
        torch.testing.assert_close(value.detach(), before[name] - 0.02 * kappa * gradient, rtol=1e-4, atol=1e-6)


def test_another_estimator_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`estimator` \(='local'\) must be one of plain, antithetic; correct"):
        experiment("digits").changed(estimator="local")


def test_a_network_starts_where_the_setting_says() -> None:
    model = build_model(experiment("cifar10"), seed=1)
    assert isinstance(model, tb.BayesianModule)
    rows = list(model.posterior())
    assert [row.tau for row in rows] == pytest.approx([0.05] * 8)
    rho = 1 / (1 + math.exp(-0.0400053301)) - 0.5
    assert [abs(row.rho) for row in rows] == pytest.approx([rho] * 8)
    assert len({row.rho > 0 for row in rows}) == 2  # signs by chance: all equal for 1 seed in 128
    scales = [float(prior.scale) for prior in model.priors]
    assert scales == pytest.approx([1.0] * 6 + [0.05] * 2)


def test_looking_at_the_error_does_not_change_the_training() -> None:
    watched, alone = (RecipeTrainer(experiment("digits").changed(batch=8), _examples(), 4) for _ in range(2))
    for _ in range(3):
        watched.advance(2)
        assert 0 <= watched.one_sample_scores(_examples())[0] <= 1
    alone.advance(6)
    ours, theirs = watched.state(), alone.state()
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)


@pytest.mark.parametrize(
    ("device", "changes", "expected"),
    [
        ("cuda", {}, True),
        ("cuda", {"iterations": 99_999}, False),
        ("cuda", {"dropout": 0.5}, False),
        ("cuda", {"data": "mnist", "network": "lenet-100"}, False),
        ("cuda", {"data": "mnist", "network": "lenet-100", "iterations": 150_000}, True),
        ("cuda", {"data": "digits", "network": "digits", "iterations": 1_000_000}, False),
        ("cuda", {"compiled": False}, False),
        ("cpu", {}, False),
        ("cpu", {"compiled": True, "iterations": 1}, True),
    ],
)
def test_a_network_is_compiled_where_that_is_faster(
    device: str, changes: dict[str, Any], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe_trainer, "find_spec", lambda name: name)  # Triton is there
    setting = experiment("cifar10-ours").changed(**changes)
    assert is_compiled(setting, torch.device(device)) is expected


def test_without_triton_a_network_is_compiled_only_where_one_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe_trainer, "find_spec", lambda _: None)
    setting, device = experiment("cifar10-ours"), torch.device("cuda")
    assert not is_compiled(setting, device)
    assert is_compiled(setting.changed(compiled=True), device)


def compile_by(backend: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let torch compile by a backend of ours, which has none of inductor's options."""
    usual = torch.compile
    monkeypatch.setattr(torch, "compile", lambda function, **_: usual(function, backend=backend, dynamic=False))


@draws_are_compiled
@pytest.mark.parametrize(
    "name", ["digits", "digits-frequentist", "mnist-lenet100", "cifar10-frequentist", "cifar10-ours"]
)
def test_a_compiled_network_takes_the_same_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compile_by(counter, monkeypatch)
    torch.manual_seed(0)
    data = Examples(torch.rand(120, *SHAPES[experiment(name).data]), torch.randint(0, 10, (120,)))
    plain, compiled, neighbour = (
        RecipeTrainer(experiment(name).changed(compiled=how), data, seed)
        for how, seed in ((False, 0), (True, 0), (True, 1))
    )
    for trainer in (plain, compiled, neighbour):
        trainer.advance(5)
    expected, found = plain.state(), compiled.state()
    assert expected.keys() == found.keys()
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value, rtol=1e-5, atol=1e-7)
    assert counter.frame_count == 1  # traced once, also for a neighbour


@draws_are_compiled
def test_where_torch_cannot_compile_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def backend(*_: object) -> None:
        raise RuntimeError("no compiler here")

    torch._dynamo.reset()
    compile_by(backend, monkeypatch)
    data = Examples(torch.rand(120, 1, 8, 8), torch.randint(0, 10, (120,)))
    trainer = RecipeTrainer(experiment("digits").changed(compiled=True), data, 0)
    with pytest.raises(
        ValueError, match=r"`compiled` \(=True\) must be false .*no compiler here.*; install what it misses"
    ):
        trainer.advance(1)
