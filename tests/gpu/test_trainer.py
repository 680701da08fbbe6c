"""Training on the GPU: captured steps are the eager ones, neighbours do not matter, a resumed run is the same run."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from reproduction.training.side_by_side import train_side_by_side
from tests.compiling import draws_are_compiled
from tribayes.recipes.experiments import experiment
from tribayes.recipes.recipe_trainer import RecipeTrainer
from tribayes.runs import Examples, Trainer
from tribayes.runs.environment import compute_repeatably

NAMES = [
    "mnist-lenet100",
    "mnist-lenet100-frequentist",
    "mnist-lenet100-diagonal",
    "mnist-lenet100-meanfield",
    "cifar10",
]


@pytest.fixture(autouse=True)
def _repeatable() -> None:
    compute_repeatably()


def trainer(name: str, seed: int = 0, iterations: int = 60, **changes: object) -> RecipeTrainer:
    torch.manual_seed(1)
    shape = (3, 32, 32) if name.startswith("cifar") else (1, 28, 28)
    images, labels = torch.randn(500, *shape).cuda(), torch.randint(0, 10, (500,)).cuda()
    # so few images weigh the divergence heavily, and a higher rate would run away (NaN is equal to nothing)
    setting = experiment(name).changed(iterations=iterations, learning_rate=1e-4, **changes)
    return RecipeTrainer(setting, Examples(images, labels), seed)


def assert_same(a: Trainer, b: Trainer) -> None:
    ours, theirs = a.state(), b.state()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)


@pytest.mark.parametrize("name", NAMES)
def test_captured_steps_are_the_eager_steps(name: str) -> None:
    eager, captured = trainer(name), trainer(name)
    Trainer.advance(eager, 60)  # the base class records nothing
    train_side_by_side([captured], lambda: None)
    assert_same(eager, captured)


@draws_are_compiled
@pytest.mark.parametrize("name", ["mnist-lenet100", "cifar10"])
def test_compiled_steps_can_be_captured_and_are_nearly_the_plain_ones(name: str) -> None:
    torch._dynamo.reset()
    # far from the guard of γ, which would make another sign of another rounding
    plain, eager, *captured = (trainer(name, compiled=how, gamma=1.0) for how in (False, True, True, True))
    for one in (plain, eager):
        Trainer.advance(one, 60)
    train_side_by_side(captured, lambda: None)
    for one in captured:
        assert_same(eager, one)
    expected = plain.state()
    for key, value in eager.state().items():
        if key.startswith("model."):
            torch.testing.assert_close(value, expected[key], rtol=1e-3, atol=1e-4)


def digest_of_a_compiled_run() -> str:
    one = trainer("cifar10", compiled=True)
    train_side_by_side([one], lambda: None)
    values = b"".join(value.reshape(-1).view(torch.uint8).numpy().tobytes() for value in one.state().values())
    return hashlib.sha256(values).hexdigest()


@draws_are_compiled
def test_a_compiled_run_has_the_same_bits_in_another_process(tmp_path: Path) -> None:
    caches = {name: str(tmp_path / name) for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")}
    words = "from tests.gpu import test_trainer as t; t.compute_repeatably(); print(t.digest_of_a_compiled_run())"
    other = subprocess.run(
        [sys.executable, "-c", words], env=os.environ | caches, capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == digest_of_a_compiled_run()


def test_neighbours_on_the_device_change_nothing() -> None:
    alone = trainer("mnist-lenet100", seed=2)
    train_side_by_side([alone], lambda: None)
    three = [trainer("mnist-lenet100", seed=seed) for seed in (1, 2, 3)]
    train_side_by_side(three, lambda: None)
    assert_same(alone, three[1])


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_run_is_the_same_run(name: str) -> None:
    whole, first, second = trainer(name), trainer(name), trainer(name)
    train_side_by_side([whole], lambda: None)
    first.advance(23)
    second.load_state(first.state())
    train_side_by_side([second], lambda: None)
    assert_same(whole, second)
