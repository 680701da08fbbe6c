"""Threads that share a network, each under its own draw."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

import tribayes as tb
from tests.networks import bayesian, inputs_of, left_as_it_was
from tests.patience import PATIENCE


@pytest.fixture
def _switching() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def _together(functions: list[Callable[[], None]]) -> None:
    """All at once in threads of their own; errors are raised here."""
    barrier, errors = threading.Barrier(len(functions)), []

    def run(function: Callable[[], None]) -> None:
        try:
            barrier.wait(PATIENCE)
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    if errors:
        raise errors[0]


@pytest.mark.usefixtures("_switching")
@pytest.mark.parametrize("name", ["MLP", "LSTM", "tied weights", "shared submodule", "TransformerEncoderLayer"])
def test_eight_threads_get_each_its_own_answer(name: str) -> None:
    model, inputs = bayesian(name), inputs_of(name)
    draws = [model.sample_weights(generator=seed) for seed in range(8)]
    with torch.no_grad():
        expected = [model.apply_weights(draw, inputs) for draw in draws]
        wrong: list[int] = []

        def ask(number: int) -> None:
            for _ in range(25):
                with torch.no_grad():
                    if not torch.equal(model.apply_weights(draws[number], inputs), expected[number]):
                        wrong.append(number)

        with left_as_it_was(model):
            _together([functools.partial(ask, number) for number in range(8)])
    assert wrong == []


@pytest.mark.usefixtures("_switching")
def test_threads_that_draw_by_themselves_leave_the_parameters_alone() -> None:
    model, inputs = bayesian("MLP"), inputs_of("MLP")
    means = model.apply_weights({}, inputs)
    answers: list[Tensor] = []

    def ask() -> None:
        answers.extend(model(inputs).detach() for _ in range(25))

    def ask_means() -> None:
        for _ in range(25):
            assert torch.equal(model.apply_weights({}, inputs), means)

    with left_as_it_was(model):
        _together([ask] * 7 + [ask_means])
    assert len(torch.stack(answers).unique(dim=0)) == 7 * 25  # a draw of its own for every call


@pytest.mark.usefixtures("_switching")
def test_a_prediction_beside_forward_passes_is_the_one_alone() -> None:
    model, inputs = bayesian("MLP"), inputs_of("MLP")
    alone = tb.predict(model, inputs, 20, progress=False).samples
    beside: list[Tensor] = []

    def predict() -> None:
        beside.append(tb.predict(model, inputs, 20, progress=False).samples)

    def ask() -> None:
        for _ in range(25):
            model(inputs)

    with left_as_it_was(model):
        _together([predict, predict, *[ask] * 6])
    assert len(beside) == 2
    assert all(torch.equal(samples, alone) for samples in beside)
