"""A file is there whole or not at all, on a disk that is full, read-only or torn away."""

import errno
import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.recipes.small import names
from tribayes._files import add_line, make_folder, read_json, store, store_json

REMEDY = "; free some space or make its folder writable, or choose another folder. What was there before is unchanged."


@contextmanager
def full_disk(limit: int = 1000) -> Iterator[None]:
    """The system refuses to let any file grow beyond `limit` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def nobody() -> Iterator[None]:
    """Root may write anywhere: become somebody else."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_new_content_replaces_the_old(tmp_path: Path) -> None:
    store(tmp_path / "a", b"old")
    store(tmp_path / "a", b"new content")
    assert (tmp_path / "a").read_bytes() == b"new content"
    assert names(tmp_path) == ["a"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    store(path, b"old")
    with full_disk(), pytest.raises(OSError, match="File too large") as caught:
        store(path, b"x" * 5000)
    assert str(caught.value) == f"{path} could not be written: File too large{REMEDY}"
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_at_any_step_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = tmp_path / "a"
    store(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="could not be written: No space left on device; free some space"):
        store(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_content_is_on_the_disk_before_it_gets_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened = []
    replace, fsync = os.replace, os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (happened.append("fsync"), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda *paths: (happened.append("replace"), replace(*paths)))
    store(tmp_path / "a", b"content")
    assert happened == ["fsync", "replace", "fsync"]  # the file, its name, the folder


def test_a_read_only_folder(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir(mode=0o555)
    with nobody(), pytest.raises(OSError, match="Permission denied; free some space or make its folder writable"):
        store(folder / "a", b"x")
    with nobody(), pytest.raises(OSError, match="Permission denied; free some space or make its folder writable"):
        make_folder(folder / "g")
    with nobody(), pytest.raises(OSError, match="Permission denied; free some space or make its folder writable"):
        add_line(folder / "a", "x")
    assert names(folder) == []


def test_a_line_that_does_not_fit_leaves_those_before(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    add_line(path, "one")
    add_line(path, "τwo")
    with full_disk(), pytest.raises(OSError, match="File too large"):
        add_line(path, "x" * 5000)
    assert path.read_text().splitlines()[:2] == ["one", "τwo"]


def test_json(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    store_json(path, {"ρ": [0.1, None]})
    assert read_json(path) == {"ρ": [0.1, None]}
    assert json.loads(path.read_text()) == {"ρ": [0.1, None]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        store_json(path, float("nan"))
    path.write_text('{"torn')
    with pytest.raises(ValueError, match=r"a\.json is damaged: it is no JSON \(.*\); restore it"):
        read_json(path)
