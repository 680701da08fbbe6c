"""Several threads may ask one model at once, and whoever works beside a prediction does not notice it."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.networks import same_tensors
from tests.patience import PATIENCE
from tests.prediction.models import FEATURES, classifier, inputs, predict, seeded

THREADS, SAMPLES = 4, 5


class Door(nn.Module):
    """Stops the first call inside until it is let through."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.entered, self.open = threading.Event(), threading.Event()

    def forward(self, x: Tensor) -> Tensor:
        self.entered.set()
        assert self.open.wait(PATIENCE)
        return self.model(x)

    def __deepcopy__(self, memo: dict[int, object]) -> Door:
        """Without the events, which cannot be copied."""
        return Door(copy.deepcopy(self.model, memo))


@contextmanager
def predicting(door: Door) -> Iterator[Future[tb.ClassPredictive]]:
    """Another thread is inside the network while this lasts."""
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(predict, door, inputs(), SAMPLES)
        try:
            assert door.entered.wait(PATIENCE)
            yield result
        finally:
            door.open.set()


class Meeting(nn.Module):
    """Each pass waits between its layers until all threads are there: every draw is in use at the same time."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(FEATURES, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)
        self.all_here = threading.Barrier(count)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.norm(self.first(x)).tanh()
        self.all_here.wait(PATIENCE)
        outputs = self.last(hidden)
        self.all_here.wait(PATIENCE)
        return outputs


def meeting(count: int = THREADS) -> tb.BayesianModule:
    return tb.to_bayesian(seeded(lambda: Meeting(count)), tau=0.5, where="*", generator=0).train()


def at_once(*jobs: Callable[[], Any]) -> list[Any]:
    """The results of jobs that each have a thread."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        return [future.result(PATIENCE) for future in [pool.submit(job) for job in jobs]]


QUESTIONS: dict[str, Callable[[int], dict[str, Any]]] = {
    "the same": lambda _: {},
    "other seeds": lambda thread: {"seed": thread},
    "shares of the samples": lambda thread: {"samples": range(SAMPLES * thread, SAMPLES * (thread + 1))},
    "other examples": lambda thread: {"inputs": inputs(15, seed=thread)},
    "other weights": lambda thread: {"where": ["first.*", "norm.*", "last.*", "*"][thread]},
}


@pytest.mark.parametrize("kind", QUESTIONS)
def test_every_thread_has_the_answer_it_has_alone(kind: str) -> None:
    questions = [{"inputs": inputs(), "samples": SAMPLES, **QUESTIONS[kind](thread)} for thread in range(THREADS)]
    alone = [predict(meeting(1), **question).samples for question in questions]
    model = meeting()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    answers = at_once(*(lambda q=question: predict(model, **q).samples for question in questions))
    for answer, expected in zip(answers, alone, strict=True):
        assert torch.equal(answer, expected)
    assert same_tensors(dict(model.state_dict()), before)
    assert all(isinstance(mean, nn.Parameter) for _, mean in model.means())
    assert all(module.training for module in model.modules())


def test_shares_of_threads_are_put_together() -> None:
    model = meeting(2)
    parts = at_once(*(lambda r=r: predict(model, inputs(), r) for r in (range(3), range(3, 6))))
    whole = predict(meeting(1), inputs(), 6)
    assert torch.equal(tb.Predictive.merge(parts).samples, whole.samples)


def test_passes_beside_a_prediction_are_those_they_are_alone() -> None:
    """`apply_weights` in one thread, `predict` in another: as many passes, and one in each."""
    draw = meeting(1).sample_weights(generator=0)
    with torch.no_grad():
        expected = meeting(1).eval().apply_weights(draw, inputs())
    alone = predict(meeting(1), inputs(), SAMPLES).samples
    model = meeting(2).eval()

    def passes() -> list[Tensor]:
        with torch.no_grad():
            return [model.apply_weights(draw, inputs()) for _ in range(SAMPLES + 1)]  # one at the means, to begin with

    outputs, answer = at_once(passes, lambda: predict(model, inputs(), SAMPLES).samples)
    assert all(torch.equal(output, expected) for output in outputs)
    assert torch.equal(answer, alone)


def test_a_second_prediction_runs_while_the_first_is_inside() -> None:
    door = Door(classifier())
    expected = predict(classifier(), inputs(), SAMPLES).samples
    with predicting(door) as first:
        meanwhile = predict(door.model, inputs(), SAMPLES)
        assert not first.done()
    assert torch.equal(meanwhile.samples, expected)
    assert torch.equal(first.result().samples, expected)
    assert torch.equal(predict(door, inputs(), SAMPLES).samples, expected)


def test_a_model_that_shares_a_part_is_asked_meanwhile() -> None:
    door = Door(classifier())
    other = nn.Sequential(door.model, nn.Softplus())
    alone = predict(other, inputs(), SAMPLES).samples
    with predicting(door) as first:
        assert torch.equal(predict(other, inputs(), SAMPLES).samples, alone)
        assert not first.done()


def test_a_copy_is_made_and_asked_meanwhile() -> None:
    door = Door(classifier())
    with predicting(door) as first:
        other = copy.deepcopy(door)
        other.open.set()
        meanwhile = predict(other, inputs(), SAMPLES)
        assert not first.done()
    assert torch.equal(meanwhile.samples, first.result().samples)
    assert same_tensors(dict(other.state_dict()), dict(door.state_dict()))


def test_mode_and_weights_stay_the_models_meanwhile() -> None:
    door = Door(classifier()).train()
    door.model.module[0].eval()
    before = {name: value.clone() for name, value in door.state_dict().items()}
    parameters = [id(parameter) for parameter in door.parameters()]
    modes = [module.training for module in door.modules()]
    with predicting(door):
        assert [module.training for module in door.modules()] == modes
        assert same_tensors(dict(door.state_dict()), before)
        assert [id(parameter) for parameter in door.parameters()] == parameters
        assert door.model._given is None
    assert [module.training for module in door.modules()] == modes


def test_a_mode_that_is_set_meanwhile_stays() -> None:
    """It is not put back to what it was when the prediction began; the prediction goes on in evaluation mode."""
    door = Door(nn.Sequential(classifier(), nn.Dropout(0.9))).train()
    expected = predict(classifier(), inputs(), SAMPLES).samples
    with predicting(door) as first:
        door.eval()
        door.train()
        door.model[0].eval()
    assert torch.equal(first.result().samples, expected)
    assert not door.model[0].training
    assert door.training


def test_gradients_stay_on_in_other_threads() -> None:
    door = Door(classifier())
    with predicting(door):
        loss = door.model(inputs()).square().sum()
        loss.backward()
    assert all(parameter.grad is not None for parameter in door.model.module.parameters())


def test_an_error_in_one_thread_does_not_reach_another() -> None:
    door = Door(classifier())
    with predicting(door) as first, pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        predict(door.model, torch.zeros(3, 5, dtype=torch.float64), 2)
    assert torch.equal(first.result().samples, predict(classifier(), inputs(), SAMPLES).samples)


def training(steps: int = 40) -> tuple[list[Tensor], dict[str, Tensor]]:
    """What training another model draws and ends in, by torch's global generator."""
    torch.manual_seed(7)
    model = tb.to_bayesian(nn.Sequential(nn.Linear(FEATURES, 6), nn.Dropout(0.2), nn.Tanh(), nn.Linear(6, 3)), tau=0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = tb.TrainingStep(model, tb.ELBO(tb.Categorical(), data_size=15), optimizer)
    noise = []
    for _ in range(steps):
        noise.append(torch.randn(4))
        step(inputs().float(), torch.arange(15) % 3)
    return noise, {name: value.clone() for name, value in model.state_dict().items()}


def test_training_beside_predictions_draws_the_numbers_it_draws_alone() -> None:
    noise, trained = training()
    state, stop, model = torch.get_rng_state(), threading.Event(), classifier()

    def ask() -> int:
        answers = 0
        while not stop.is_set() or answers < 3:
            predict(model, inputs(), SAMPLES, seed=answers)
            predict(model, inputs(), tb.AutoSamples(first=2, cap=4))
            answers += 1
        return answers

    with ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(ask) for _ in range(2)]
        try:
            beside, trained_beside = training()
        finally:
            stop.set()
        assert all(future.result(PATIENCE) >= 3 for future in asking)
    assert len(torch.stack(noise).unique(dim=0)) == len(noise)
    assert torch.equal(torch.stack(beside), torch.stack(noise))
    assert same_tensors(trained_beside, trained)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("samples", [SAMPLES, tb.AutoSamples(first=2, cap=4), tb.Moments(16)], ids=str)
def test_the_global_random_state_is_neither_used_nor_changed(samples: Any) -> None:
    """Not even for a moment: every pass sees it as it was."""
    model, seen = tb.to_bayesian(seeded(lambda: nn.Linear(FEATURES, 3))), []
    model.module.register_forward_hook(lambda *_: seen.append(torch.get_rng_state()))
    before = torch.get_rng_state()
    predict(model, inputs(), samples)
    assert torch.equal(torch.get_rng_state(), before)
    assert len(seen) >= 2
    assert all(torch.equal(state, before) for state in seen)


def test_moments_in_several_threads() -> None:
    net = seeded(lambda: nn.Sequential(nn.Linear(FEATURES, 6), nn.ReLU(), nn.Linear(6, 3)))
    model = tb.to_bayesian(net, tau=0.4)
    expected = predict(model, inputs(), tb.Moments()).samples
    answers = at_once(*[lambda: predict(model, inputs(), tb.Moments()).samples] * THREADS)
    assert all(torch.equal(answer, expected) for answer in answers)
