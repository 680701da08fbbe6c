"""Every example in a docstring of the package runs, and gives what it says."""

from __future__ import annotations

import doctest
import importlib
import inspect
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tribayes
from tests.libraries import among_other_libraries, make_torchvision_importable

matplotlib.use("Agg")

OPTIONAL = ("triton", "lightning", "transformers", "wandb")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FINDER = doctest.DocTestFinder(exclude_empty=True)
NAMES = {"torch": torch, "nn": nn, "F": F, "tb": tribayes, "tribayes": tribayes, "math": math, "Path": Path}


PACKAGE = Path(tribayes.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


def module_names() -> list[str]:
    """All modules of the package, by their files; a `__main__` is a program, which importing would start."""
    paths = (path.relative_to(PACKAGE.parent).with_suffix("") for path in FILES if path.stem != "__main__")
    return [".".join(path.parts).removesuffix(".__init__") for path in paths]


def cases() -> Iterator[Any]:
    """One case per docstring that has an example; one that fails for a module that cannot be imported."""
    make_torchvision_importable()  # which integrations import through their libraries
    for name in module_names():
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name in OPTIONAL:
                skip = pytest.mark.skip(reason=f"{name} needs {error.name}, which is not installed")
                yield pytest.param(None, id=name, marks=skip)
                continue
            yield pytest.param(error, id=name)
        except Exception as error:
            yield pytest.param(error, id=name)
        else:
            yield from (pytest.param(test, id=test.name) for test in FINDER.find(module) if test.examples)


@pytest.fixture
def _figures_are_closed() -> Iterator[None]:
    from matplotlib import pyplot

    yield
    pyplot.close("all")


@pytest.mark.usefixtures("_figures_are_closed")
@pytest.mark.parametrize("example", list(cases()))
def test_an_example_runs_and_gives_what_it_says(example: doctest.DocTest | Exception, tmp_path: Path) -> None:
    if isinstance(example, Exception):
        raise example
    example.globs.update(NAMES, folder=tmp_path)
    complaints: list[str] = []
    with torch.random.fork_rng(), among_other_libraries():
        torch.manual_seed(0)
        result = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=complaints.append, clear_globs=False)
    assert result.attempted == len(example.examples)
    assert result.failed == 0, "".join(complaints)


def public_names() -> Iterator[Any]:
    """Every public class and function, once, with the room that lists it; metrics are public by what they define."""
    seen: set[int] = set()
    for name in module_names():
        module = importlib.import_module(name) if (PACKAGE.parent / name.replace(".", "/")).is_dir() else None
        for public in getattr(module, "__all__", []):
            thing = getattr(module, public)
            if (inspect.isclass(thing) or inspect.isroutine(thing)) and id(thing) not in seen:
                seen.add(id(thing))
                yield pytest.param(thing, id=f"{name}.{public}")
    metrics = tribayes.metrics
    yield from (pytest.param(getattr(metrics, name), id=f"metrics.{name}") for name in metrics.__all__)


@pytest.mark.parametrize("thing", list(public_names()))
def test_a_public_name_has_an_example(thing: Any) -> None:
    assert ">>>" in (thing.__doc__ or ""), "show how it is used; what it gives is checked"


def test_examples_are_found_and_a_wrong_one_fails() -> None:
    assert len(module_names()) > 50
    assert "tribayes.prediction.metrics" in module_names()
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    with pytest.raises(AssertionError, match="Expected:"):
        test_an_example_runs_and_gives_what_it_says(wrong, Path())


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_example_is_switched_off(path: Path) -> None:
    assert "doctest: +SKIP" not in path.read_text()
