"""What the tests of the modern study share."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from benchmarks import peers
from benchmarks.modern import networks
from tests.benchmarks.modern import small


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small networks under names of their own."""
    for name, kind in small.NETWORKS.items():
        monkeypatch.setitem(networks.NETWORKS, name, kind)


@pytest.fixture(autouse=True)
def _closed_peers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An arm that looks into the folder of peers leaves it open; other tests want it closed."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(peers.SITE) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]
