"""Other libraries' networks, imported where a test needs them: they take seconds, and are not everywhere."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
import torch

_OPERATORS = ("nms", "qnms")  # what torchvision looks for when it is imported, and its code for another torch lacks
_declared: list[torch.library.Library] = []  # a library's operators live as long as it does


@cache
def library(name: str) -> Any:
    """A library, or the test is skipped. What it warns of when it is imported is its own affair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make_torchvision_importable()
        extra = "wandb" if name == "wandb" else "dev"  # wandb reports its own use: nobody gets it unasked
        return pytest.importorskip(name, reason=f"{name} is not installed: pip install '.[{extra}]'")


@cache
def make_torchvision_importable() -> None:
    """timm and transformers import torchvision, which does not load beside a torch it was not built for."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        _declared.append(torch.library.Library("torchvision", "DEF"))
        for operator in _OPERATORS:
            _declared[0].define(f"{operator}(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    except ImportError:
        return  # not installed: nobody needs it


@contextmanager
def among_other_libraries() -> Iterator[None]:
    """What Lightning and its like warn of while they run is their own affair; ours are errors as ever."""
    with warnings.catch_warnings():
        for words in ("validation_step", "does not have many workers", "number of training batches"):
            warnings.filterwarnings("ignore", f".*{words}.*")  # advice about settings, which are small here on purpose
        warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)  # Lightning's use of torch
        yield
