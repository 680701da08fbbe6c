"""What to install is said where the library is not there that an integration is made for."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    ("module", "library", "extra"),
    [
        ("integrations.lightning", "lightning", "lightning"),
        ("integrations.transformers", "transformers", "transformers"),
        ("sklearn", "sklearn", "sklearn"),
    ],
)
def test_a_library_that_is_missing_is_named(
    module: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, f"tribayes.{module}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"which is not installed; install .*: pip install 'tribayes\[{extra}\]'$"):
        import_module(f"tribayes.{module}")
