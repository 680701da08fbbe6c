"""What the tests of the modern study share."""

from __future__ import annotations

import pytest

from benchmarks.modern import networks
from tests.benchmarks.modern import small


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small networks under names of their own."""
    for name, kind in small.NETWORKS.items():
        monkeypatch.setitem(networks.NETWORKS, name, kind)
