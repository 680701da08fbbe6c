"""The network that is there when none is named, and what the command says where it cannot serve."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from tests.recipes.small import setting, tribayes
from tribayes.recipes import recipe_run
from tribayes.recipes.setting import Setting
from tribayes.serve import home


def test_it_is_trained_once_and_kept_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def short(_: str) -> Setting:
        return setting(iterations=20)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(home, "experiment", short)
    monkeypatch.setattr(recipe_run, "experiment", short)
    run = home.embedded_run()
    assert run.finished
    assert run.folder.parent == tmp_path / "tribayes" / "serve"
    assert "Training the network of handwritten digits, once" in capsys.readouterr().out
    again = home.embedded_run()
    assert again.folder == run.folder
    assert capsys.readouterr().out == ""
    (run.folder / "final.safetensors").unlink()  # as if it had been cut short: it goes on from its checkpoint
    assert home.embedded_run().finished


def test_an_address_that_is_taken_is_named(run: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = tribayes("serve", run, "--port", port)
    assert answer.code == 1
    assert f"`--host, --port` (='127.0.0.1:{port}') must be free (Address already in use); choose another" in answer.err


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "tribayes.serve.server", raising=False)
    said = tribayes("serve").err
    assert said.endswith("uvicorn, which is not installed; install it with: pip install 'tribayes[serve]'\n")
