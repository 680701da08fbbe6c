"""One prediction at a time on a model: a second thread is refused in words, and may come back later."""

import copy
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.prediction.models import classifier, inputs, predict

WAIT = 30  # seconds before a hanging test gives up
BUSY = (
    "another thread is predicting with this model, and weights are swapped while it runs; "
    r"give each thread its own: copy.deepcopy\(model\)"
)


class Door(nn.Module):
    """Stops the first call inside until it is let through."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.entered, self.open = threading.Event(), threading.Event()

    def forward(self, x: Tensor) -> Tensor:
        self.entered.set()
        assert self.open.wait(WAIT)
        return self.model(x)

    def __deepcopy__(self, memo: dict[int, object]) -> "Door":
        """Without the events, which cannot be copied."""
        return Door(copy.deepcopy(self.model, memo))


@contextmanager
def predicting(door: Door) -> Iterator[Future[tb.ClassPredictive]]:
    """Another thread is inside the network while this lasts."""
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(predict, door, inputs(), 3)
        try:
            assert door.entered.wait(WAIT)
            yield result
        finally:
            door.open.set()


def test_a_second_thread_is_refused_and_the_first_is_not_disturbed() -> None:
    door = Door(classifier())
    with predicting(door) as first, pytest.raises(RuntimeError, match=BUSY):
        predict(door, inputs(), 3)
    expected = predict(classifier(), inputs(), 3).samples
    assert torch.equal(first.result().samples, expected)
    assert torch.equal(predict(door, inputs(), 3).samples, expected)  # afterwards it works


def test_a_part_of_the_model_is_refused_too() -> None:
    door = Door(classifier())
    with predicting(door), pytest.raises(RuntimeError, match=BUSY):
        predict(door.model, inputs(), 3)
    assert predict(door.model, inputs(), 3).sample_count == 3


def test_a_model_that_shares_a_part_is_refused_too() -> None:
    door = Door(classifier())
    with predicting(door), pytest.raises(RuntimeError, match=BUSY):
        predict(nn.Sequential(door.model, nn.Softplus()), inputs(), 3)


def test_a_copy_may_be_used_meanwhile() -> None:
    door = Door(classifier())
    other = copy.deepcopy(door)
    other.open.set()
    with predicting(door) as first:
        meanwhile = predict(other, inputs(), 3)
    assert torch.equal(meanwhile.samples, first.result().samples)


def test_a_refused_thread_leaves_the_mode_to_the_first() -> None:
    """The second thread sees evaluation mode, which is the first one's; it must not put that back later."""
    door = Door(classifier()).train()
    with predicting(door):
        assert not door.training
        with pytest.raises(RuntimeError, match=BUSY):
            predict(door, inputs(), 3)
        assert not door.training
    assert all(module.training for module in door.modules())


def test_mode_and_buffers_are_read_once_the_model_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that comes while another predicts, but gets its turn after that, must not restore evaluation mode."""
    door = Door(classifier()).train()
    lock = threading.Lock()

    class Queue:
        """A lock that this thread gets only when the other has finished."""

        def __enter__(self) -> None:
            if threading.current_thread() is threading.main_thread():
                door.open.set()
                first.result(WAIT)
            lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()

    with predicting(door) as first:
        monkeypatch.setattr("tribayes.prediction.state._LOCK", Queue())
        predict(door, inputs(), 3)
    assert all(module.training for module in door.modules())
