"""The examples of other libraries run, shortened where that takes nothing from them, and learn."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.libraries import among_other_libraries, library

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str, *libraries: str) -> ModuleType:
    """An example as a module, once what it needs is there."""
    for needed in libraries:
        library(needed)
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lightning(capsys: pytest.CaptureFixture[str]) -> None:
    with among_other_libraries():
        pred = example("with_lightning", "sklearn", "lightning").main(epochs=1)
    assert "test error" in capsys.readouterr().out
    assert pred.mean.shape == (360, 10)


def test_transformers() -> None:
    found = example("with_transformers", "transformers", "accelerate").main(epochs=1)
    assert 0 < found["nll"] < 0.8  # a guess has 0.69


def test_accelerate(capsys: pytest.CaptureFixture[str]) -> None:
    pred = example("with_accelerate", "accelerate").main(epochs=5)
    assert "test error" in capsys.readouterr().out
    assert pred.mean.shape == (500, 2)


def test_loggers(tmp_path: Path) -> None:
    found = example("with_loggers", "tensorboard", "wandb", "torchmetrics").main(tmp_path, epochs=5)
    assert found["accuracy"] > 0.6
    assert list((tmp_path / "tensorboard").glob("events*"))
    assert list(tmp_path.rglob("*.wandb"))


def test_they_are_short() -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("with_*.py")}
    assert lengths
    assert max(lengths.values()) <= 40, lengths
