"""What makes pages does as its examples say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import pages

MODULES = [path.stem for path in sorted(Path(pages.__path__[0]).glob("*.py")) if ">>> " in path.read_text()]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    if name == "docstrings":
        pytest.importorskip("griffe", reason="griffe reads docstrings for the manual: pip install 'tribayes[docs]'")
    failures, tried = doctest.testmod(importlib.import_module(f"pages.{name}"))
    assert failures == 0
    assert tried > 0
