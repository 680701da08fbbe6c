"""No test here sees the data, the cache or the proxy of the person who runs it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.data.mirror import Mirror


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache, empty and not yet made; $TRIBAYES_DATA is unset."""
    monkeypatch.delenv("TRIBAYES_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "xdg" / "tribayes"


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    with Mirror() as server:
        yield server
