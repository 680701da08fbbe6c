"""Everything in this folder needs Triton as an interpreter, and says so where it is not."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
READY = find_spec("triton") is not None and os.environ.get("TRITON_INTERPRET") == "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and not READY:
            item.add_marker(pytest.mark.skip(reason="needs Triton and TRITON_INTERPRET=1"))
