"""A recorded training step is the one that is run as it is: same draws, same weights, step by step."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

import tribayes as tb
from tests.compiling import draws_are_compiled
from tests.networks import same_tensors

STEPS = 40
Batches = list[tuple[Any, Tensor]]
MakeOptimizer = Callable[[list[dict[str, object]]], torch.optim.Optimizer]
MakeScheduler = Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler]


@pytest.fixture(autouse=True)
def _repeatable() -> Iterator[None]:
    before = torch.backends.cudnn.deterministic
    torch.backends.cudnn.deterministic = True
    torch._dynamo.reset()
    yield
    torch.backends.cudnn.deterministic = before
    torch._dynamo.reset()


def network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 9, 10))


def sgd(groups: list[dict[str, object]]) -> torch.optim.Optimizer:
    return torch.optim.SGD(groups, momentum=0.9)


def fused(groups: list[dict[str, object]]) -> torch.optim.Optimizer:
    return torch.optim.SGD(groups, momentum=0.9, fused=True)


def batches(count: int = STEPS) -> Batches:
    source = torch.Generator().manual_seed(3)
    images = torch.randn(count, 16, 1, 8, 8, generator=source).cuda()
    labels = torch.randint(0, 10, (count, 16), generator=source).cuda()
    return list(zip(images, labels, strict=True))


class Run:
    """A training from one start, recorded or not."""

    def __init__(
        self,
        capture: bool | str,
        make: Callable[[], nn.Module] = network,
        optimizer: MakeOptimizer = sgd,
        scheduler: MakeScheduler | None = None,
        kl_weight: float | str | Callable[[int], float] = 0.1,
        compiled: bool = False,
        implementation: str | None = None,
        family: str = "tridiagonal",
        prior: object = None,
        multiplier: float | None = 1.0,
        **options: object,
    ) -> None:
        torch.manual_seed(0)
        self.model = tb.to_bayesian(make(), family=family, prior=tb.Prior() if prior is None else prior).cuda()
        if implementation is not None:
            self.model.family._implementation = implementation
        trained = torch.compile(self.model, dynamic=False) if compiled else self.model
        self.optimizer = optimizer(tb.parameter_groups(self.model, lr=0.02, correlation_lr_multiplier=multiplier))
        self.scheduler = None if scheduler is None else scheduler(self.optimizer)
        elbo = tb.ELBO(tb.Categorical(), data_size=1000, kl_weight=kl_weight)
        self.step = tb.TrainingStep(trained, elbo, self.optimizer, capture=capture, **options)

    def train(self, data: Batches) -> Tensor:
        torch.manual_seed(5)
        losses = []
        for inputs, labels in data:
            losses.append(self.step(inputs, labels).loss.clone())
            if self.scheduler is not None:
                self.scheduler.step()
        return torch.stack(losses)


def check(data: Batches | None = None, recorded: bool = True, **options: object) -> Run:
    """Train twice, recorded and not, and compare; the recorded run is returned."""
    data = batches() if data is None else data
    captured, eager = Run("auto", **options), Run(False, **options)
    ours, theirs = captured.train(data), eager.train(data)
    assert captured.step.captured == recorded
    assert not eager.step.captured
    assert captured.step.count == eager.step.count == len(data)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    for one, other in zip(captured.model.parameters(), eager.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
    rates = [[group["lr"] for group in run.optimizer.param_groups] for run in (captured, eager)]
    assert [float(rate) for rate in rates[0]] == pytest.approx([float(rate) for rate in rates[1]])
    return captured


@pytest.mark.parametrize("optimizer", [sgd, fused])
def test_what_is_frozen_for_a_while_stays_for_that_while(optimizer: MakeOptimizer) -> None:
    """A recording would go on with what it was made of."""
    runs = Run("auto", optimizer=optimizer), Run(False, optimizer=optimizer)
    losses = []
    for run in runs:
        layer = run.model.module[0]
        before = run.train(batches(10))
        weight = layer.requires_grad_(False).weight.detach().clone()
        during = run.train(batches(10))
        assert torch.equal(layer.weight, weight)
        layer.requires_grad_(True)
        losses.append(torch.cat([before, during, run.train(batches(10))]))
        assert not torch.equal(layer.weight, weight)
    assert runs[0].step.captured
    torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("optimizer", [sgd, fused])
def test_a_model_that_was_moved_away_and_back_goes_on_learning(optimizer: MakeOptimizer) -> None:
    """A recording would go on with the places where model and optimizer were."""
    runs = Run("auto", optimizer=optimizer), Run(False, optimizer=optimizer)
    losses = []
    for run in runs:
        before = run.train(batches(10))
        run.model.cpu().cuda()
        during = run.train(batches(10))
        run.optimizer.load_state_dict(run.optimizer.state_dict())
        losses.append(torch.cat([before, during, run.train(batches(10))]))
    assert runs[0].step.captured
    torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("family", "implementation"),
    [("tridiagonal", None), ("tridiagonal", "plain"), ("diagonal", None), ("mean_field", None)],
)
def test_two_hundred_recorded_steps_are_the_plain_ones(family: str, implementation: str | None) -> None:
    check(batches(200), family=family, implementation=implementation)


@pytest.mark.parametrize("family", ["tridiagonal", "diagonal", "mean_field"])
def test_the_defaults_are_recorded_too(family: str) -> None:
    """The relative prior, steady steps of δ and γ, whose running sizes live in the graph, and the automatic weight."""
    check(batches(200), family=family, prior=tb.RelativePrior(), multiplier=None, kl_weight="auto")


# optimizers and schedules


def test_rate_and_divergence_follow_their_schedules() -> None:
    check(
        optimizer=fused,
        scheduler=lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.95**step),
        kl_weight=lambda step: min(1.0, step / 20),
    )


def test_a_schedule_of_the_divergence_reaches_the_gradient() -> None:
    constant, growing = (Run("auto", kl_weight=weight) for weight in (0.0, lambda step: step / 10))
    for run in (constant, growing):
        run.train(batches())
        assert run.step.captured
    assert growing.model.kl() < 0.9 * constant.model.kl()


OPTIMIZERS: dict[str, MakeOptimizer] = {
    "SGD": sgd,
    "SGD fused": fused,
    "Adam": torch.optim.Adam,
    "Adam capturable": lambda groups: torch.optim.Adam(groups, capturable=True),
    "Adam fused": lambda groups: torch.optim.Adam(groups, fused=True),
    "AdamW": torch.optim.AdamW,
    "AdamW capturable": lambda groups: torch.optim.AdamW(groups, capturable=True),
    "RMSprop": torch.optim.RMSprop,
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_any_optimizer_updates_as_without_a_recording(name: str) -> None:
    """In the recording where it reads its rate from the device, else after each replay."""
    check(optimizer=OPTIMIZERS[name], scheduler=lambda made: torch.optim.lr_scheduler.StepLR(made, 10, gamma=0.3))


@pytest.mark.parametrize("optimizer", [sgd, fused])
def test_a_momentum_that_changes_is_taken_up(optimizer: MakeOptimizer) -> None:
    def cycle(made: torch.optim.Optimizer) -> torch.optim.lr_scheduler.OneCycleLR:
        lowest, highest = ([top if g["momentum"] else 0.0 for g in made.param_groups] for top in (0.85, 0.95))
        return torch.optim.lr_scheduler.OneCycleLR(
            made, max_lr=0.03, total_steps=STEPS + 1, base_momentum=lowest, max_momentum=highest
        )

    check(optimizer=optimizer, scheduler=cycle)


@pytest.mark.parametrize("optimizer", [sgd, fused])
def test_a_rate_set_by_hand_is_taken_up(optimizer: MakeOptimizer) -> None:
    results = []
    for capture in ("auto", False):
        run = Run(capture, optimizer=optimizer)
        torch.manual_seed(5)
        for number, (inputs, labels) in enumerate(batches()):
            for group in run.optimizer.param_groups:
                group["lr"] = group["lr"] * (0.0 if number == 20 else 1.0)
            if number == 20:
                before = {name: value.clone() for name, value in run.model.state_dict().items()}
                run.optimizer.param_groups[0]["momentum"] = 0.9  # the same: nothing to record anew
            run.step(inputs, labels)
        assert run.step.captured == (capture == "auto")
        assert same_tensors(run.model.state_dict(), before)  # a rate of zero
        results.append(before)
    for name, value in results[0].items():
        torch.testing.assert_close(value, results[1][name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("clip", [0.01, None])
@pytest.mark.parametrize("rule", ["closed_form", "paper"])
def test_clip_and_rule_are_part_of_the_recording(clip: float | None, rule: str) -> None:
    check(clip=clip, rule=rule)


# batches


def test_a_batch_of_another_shape_is_run_as_it_is() -> None:
    data = batches()
    for number in (0, 12, 25, 39):
        data[number] = (data[number][0][:5], data[number][1][:5])
    check(data, optimizer=fused)
    check(data)


def test_batches_of_the_host_are_moved() -> None:
    data = [(inputs.cpu(), labels.cpu()) for inputs, labels in batches()]
    run, other = Run("auto"), Run("auto")
    torch.testing.assert_close(run.train(data), other.train(batches()), rtol=0, atol=0)
    assert run.step.captured


def test_terms_are_without_a_graph_and_lie_where_they_lay() -> None:
    run = Run("auto")
    run.train(batches(10))
    inputs, labels = batches(11)[-1]
    one = run.step(inputs, labels)
    before = one.loss.clone()
    assert all(not term.requires_grad for term in one)
    other = run.step(inputs, labels)
    assert one.loss.data_ptr() == other.loss.data_ptr()
    assert not torch.equal(one.loss, before)


# randomness


@pytest.mark.parametrize("family", ["tridiagonal", "mean_field"])
def test_a_generator_of_its_own_leaves_torchs_alone(family: str) -> None:
    def run(capture: bool | str, seed: int) -> Tensor:
        one = Run(capture, family=family, generator=seed)
        torch.manual_seed(1)
        states = torch.get_rng_state(), torch.cuda.get_rng_state()
        losses = torch.stack([one.step(inputs, labels).loss.clone() for inputs, labels in batches()])
        assert torch.equal(torch.get_rng_state(), states[0])
        assert torch.equal(torch.cuda.get_rng_state(), states[1])
        assert one.step.captured == (capture == "auto")
        return losses

    torch.testing.assert_close(run("auto", 2**64), run(False, 2**64), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(run("auto", 2**64), run("auto", 2**64 + 1))


def test_every_replay_draws_anew() -> None:
    run = Run("auto")
    run.train(batches(10))
    inputs, labels = batches(1)[0]
    for group in run.optimizer.param_groups:
        group["lr"] = 0.0
    losses = [run.step(inputs, labels).nll.item() for _ in range(10)]
    assert run.step.captured
    assert len(set(losses)) == 10


# networks that no recording can hold


class Looking(nn.Module):
    """Asks the host about its outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network()

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self.body(inputs)
        return outputs if outputs.sum().item() > 0 else 2 * outputs


class Throwing(Looking):
    """Throws Python's dice."""

    def forward(self, inputs: Tensor) -> Tensor:
        return self.body(inputs) * random.choice([1.0, 0.5])


class ThrowingNumpy(Looking):
    """Throws NumPy's dice."""

    def forward(self, inputs: Tensor) -> Tensor:
        numpy = pytest.importorskip("numpy")
        return self.body(inputs) * float(numpy.random.choice([1.0, 0.5]))


class Counting(Looking):
    """Counts its calls, and computes with them."""

    calls = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        return self.body(inputs) * (1 + self.calls % 2)


class Averaging(Looking):
    """Computes with a buffer that it assigns anew."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(10))

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self.body(inputs)
        self.mean = 0.9 * self.mean + 0.1 * outputs.detach().mean(0)
        return outputs - self.mean


@pytest.mark.parametrize("make", [Looking, Throwing, ThrowingNumpy, Counting, Averaging])
def test_a_network_that_cannot_be_recorded_is_trained_as_it_is(make: type[Looking]) -> None:
    def seeded() -> nn.Module:
        random.seed(0)
        if make is ThrowingNumpy:
            pytest.importorskip("numpy").random.seed(0)
        return make()

    captured, eager = (Run(capture, make=seeded) for capture in ("auto", False))
    results = []
    for run in (captured, eager):
        random.seed(0)
        if make is ThrowingNumpy:
            pytest.importorskip("numpy").random.seed(0)
        results.append(run.train(batches()))
        assert not run.step.captured
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)
    if make is Counting:
        assert captured.model.module.calls == STEPS


@pytest.mark.parametrize("make", [Looking, Counting, Averaging])
def test_a_plain_network_that_cannot_be_recorded_is_trained_as_it_is(make: type[Looking]) -> None:
    torch.manual_seed(0)
    net = make().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    step = tb.TrainingStep(net, tb.MaximumLikelihood(tb.Categorical()), optimizer)
    for inputs, labels in batches():
        step(inputs, labels)
    assert not step.captured
    if make is Counting:
        assert net.calls == STEPS


# other models


@draws_are_compiled
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("optimizer", [sgd, fused])
def test_a_compiled_model_is_recorded_too(optimizer: MakeOptimizer) -> None:
    check(batches(100), compiled=True, optimizer=optimizer)


@draws_are_compiled
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_network_compiled_before_its_conversion_is_recorded_too() -> None:
    check(make=lambda: torch.compile(network(), dynamic=False))


class Parts(nn.Module):
    """Two Bayesian parts, a normalisation and a dropout between them."""

    def __init__(self) -> None:
        super().__init__()
        self.one = tb.to_bayesian(nn.Conv2d(1, 4, 3))
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.2)
        self.two = tb.to_bayesian(nn.Linear(4 * 36, 10), family="mean_field")

    def forward(self, inputs: Tensor) -> Tensor:
        return self.two(self.drop(torch.relu(self.norm(self.one(inputs)))).flatten(1))


def test_a_model_of_several_parts_is_recorded() -> None:
    results = []
    for capture in ("auto", False):
        torch.manual_seed(0)
        model = Parts().cuda()
        optimizer = fused(tb.parameter_groups(model, lr=0.02, correlation_lr_multiplier=1.0))
        step = tb.TrainingStep(model, tb.ELBO(tb.Categorical(), data_size=1000), optimizer, capture=capture)
        torch.manual_seed(5)
        losses = torch.stack([step(inputs, labels).loss.clone() for inputs, labels in batches()])
        assert step.captured == (capture == "auto")
        assert model.norm.num_batches_tracked == STEPS
        results.append((losses, model.state_dict()))
    torch.testing.assert_close(results[0][0], results[1][0], rtol=1e-4, atol=1e-4)
    for name, value in results[0][1].items():
        torch.testing.assert_close(value, results[1][1][name], rtol=1e-3, atol=1e-4)


class NamedArguments(nn.Module):
    """Inputs in a nest of containers, and an answer of several parts."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network()

    def forward(self, *, images: Tensor, more: dict[str, list[Tensor]], half: bool) -> dict[str, Tensor]:
        logits = self.body(images * more["scales"][0])
        return {"loss": logits.sum(), "logits": logits / 2 if half else logits}


@pytest.mark.parametrize("on_host", [False, True])
def test_named_and_nested_inputs_are_recorded(on_host: bool) -> None:
    """New values are copied into every place; a batch with another flag is run as it is."""
    data = [
        ({"images": images, "more": {"scales": [images.mean() + 1, labels]}, "half": number == 30}, labels)
        for number, (images, labels) in enumerate(batches())
    ]
    if on_host:
        data = tree_map_only(Tensor, Tensor.cpu, data)
    check(data, make=NamedArguments)


def test_a_batch_with_an_object_of_its_own_is_never_replayed() -> None:
    """Tensors may hide in it."""

    class Holder:
        def __init__(self, images: Tensor) -> None:
            self.images = images

    class Held(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = network()

        def forward(self, holder: Holder) -> Tensor:
            return self.body(holder.images)

    check([((Holder(images),), labels) for images, labels in batches()], make=Held)


def test_a_plain_network_is_recorded() -> None:
    results = []
    for capture in ("auto", False):
        torch.manual_seed(0)
        net = network().cuda()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, fused=True)
        step = tb.TrainingStep(net, tb.MaximumLikelihood(tb.Categorical()), optimizer, capture=capture)
        results.append(torch.stack([step(inputs, labels).loss.clone() for inputs, labels in batches()]))
        assert step.captured == (capture == "auto")
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)


def test_a_learned_noise_is_learned_by_replays() -> None:
    results = []
    for capture in ("auto", False):
        torch.manual_seed(0)
        model, likelihood = tb.to_bayesian(nn.Linear(4, 1)).cuda(), tb.Gaussian(learned=True).cuda()
        groups = tb.parameter_groups(model, lr=0.02, correlation_lr_multiplier=1.0, likelihood=likelihood)
        step = tb.TrainingStep(model, tb.ELBO(likelihood, data_size=1000), sgd(groups), capture=capture)
        source = torch.Generator().manual_seed(2)
        torch.manual_seed(5)
        for _ in range(STEPS):
            inputs = torch.randn(16, 4, generator=source)
            step(inputs, inputs.sum(1, keepdim=True))
        assert step.captured == (capture == "auto")
        results.append(likelihood.noise.item())
    assert results[0] == pytest.approx(results[1], rel=1e-3)
    assert abs(results[0] - 1) > 1e-3
