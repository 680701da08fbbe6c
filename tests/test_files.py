"""Files that several processes may write, parts that become whole, and folders held by one process at a time."""

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tribayes import _files
from tribayes._files import make_folder, only_one, put_in_place, read_json, store


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_writers_of_one_file_do_not_mix(tmp_path: Path) -> None:
    """Each content is one letter, so a mixture of two would show. No writer may meet another's temporary file."""
    path = tmp_path / "a"

    def write(letter: bytes) -> None:
        for _ in range(20):
            store(path, letter * 50_000, contested=True)

    failures: list[BaseException] = []
    writers = [threading.Thread(target=_noting(write, failures), args=(letter,)) for letter in (b"x", b"y", b"z")]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        if path.exists():
            content = path.read_bytes()
            seen.add((len(content), len(set(content))))
    for writer in writers:
        writer.join()
    assert failures == []
    assert seen <= {(50_000, 1)}
    assert names(tmp_path) == ["a"]


def _noting(work: Callable[..., None], failures: list[BaseException]) -> Callable[..., None]:
    def run(*arguments: object) -> None:
        try:
            work(*arguments)
        except BaseException as error:
            failures.append(error)

    return run


@pytest.mark.parametrize("contested", [False, True])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, contested: bool
) -> None:
    store(tmp_path / "a", b"old")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="a could not be written: No space left on device; free some space"):
        store(tmp_path / "a", b"new", contested=contested)
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("contested", [False, True])
def test_an_interruption_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, contested: bool
) -> None:
    store(tmp_path / "a", b"old")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store(tmp_path / "a", b"new", contested=contested)
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_what_a_crash_left_behind_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / ".a.new").write_bytes(b"a part of what was to be written, and longer than it")
    store(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert names(tmp_path) == ["a"]


def test_a_link_in_the_place_of_an_unfinished_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"of somebody else")
    (tmp_path / ".a.new").symlink_to(tmp_path / "elsewhere")
    store(tmp_path / "a", b"new")
    assert (tmp_path / "elsewhere").read_bytes() == b"of somebody else"
    assert (tmp_path / "a").read_bytes() == b"new"


def test_a_pipe_or_a_device_keeps_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file took it: who wrote to /dev/null as root had none afterwards."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "out").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "out"):
        with pytest.raises(ValueError, match=r"must name a plain file, but is a device or a pipe; choose another name"):
            store(tmp_path / name, b"content")
    assert (tmp_path / "pipe").is_fifo()
    monkeypatch.setattr(_files, "_DEVICES", tmp_path)  # whose links lead to plain files, where output is redirected
    with pytest.raises(ValueError, match="is a device or a pipe"):
        store(tmp_path / "stdout", b"content")


def test_a_finished_part_gets_its_name_once_it_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened = []
    replace, fsync = os.replace, os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (happened.append("fsync"), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda *paths: (happened.append("replace"), replace(*paths)))
    (tmp_path / "file.part").write_bytes(b"content")
    (tmp_path / "file").write_bytes(b"old")
    put_in_place(tmp_path / "file.part", tmp_path / "file")
    assert happened == ["fsync", "replace", "fsync"]  # the file, its name, the folder
    assert (tmp_path / "file").read_bytes() == b"content"
    assert names(tmp_path) == ["file"]


def test_folders_are_made_with_those_above_them(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file could not be written: File exists"):
        make_folder(tmp_path / "file")


HOLD = """
import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the folder until its input ends."""
    pytest.importorskip("fcntl", reason="locks are those of POSIX")
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_folder_held_by_another_process_is_refused(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(ValueError, match="must be free, but another process trains in it"), only_one(tmp_path):
        pytest.fail("it was entered")
    holder.stdin.close()
    holder.wait(PATIENCE)
    with only_one(tmp_path):
        pass


def test_who_waits_enters_when_the_other_lets_go(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    entered = threading.Event()

    def wait() -> None:
        with only_one(tmp_path, wait=True):
            entered.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert not entered.wait(0.2)
    holder.stdin.close()
    waiting.join(PATIENCE)
    assert entered.is_set()


def test_a_killed_process_lets_go(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait(PATIENCE)
    with only_one(tmp_path):
        pass


@pytest.mark.parametrize("wait", [False, True])
def test_an_error_inside_lets_go_and_is_not_hidden(tmp_path: Path, wait: bool) -> None:
    with pytest.raises(KeyError, match="mine"), only_one(tmp_path, wait=wait):
        raise KeyError("mine")
    with only_one(tmp_path):
        pass


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EBADF, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, wait: bool
) -> None:
    fcntl = pytest.importorskip("fcntl", reason="locks are those of POSIX")

    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    entered = False
    with only_one(tmp_path, wait=wait):
        entered = True
    assert entered


def test_another_failure_of_the_lock_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl", reason="locks are those of POSIX")

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(OSError, match="Input/output error"), only_one(tmp_path, wait=True):
        pytest.fail("it was entered")


def test_json_larger_than_any_of_ours_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "x.json").open("wb") as file:
        file.truncate(32_000_001)
    with pytest.raises(ValueError, match=r"x\.json is damaged: it holds 32 MB, and none of ours more than 32; restore"):
        read_json(tmp_path / "x.json")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_json_does_not_have_are_damage(tmp_path: Path, number: str) -> None:
    """They were read, and refused in json's own words once they were to be written again, as a run was resumed."""
    path = tmp_path / "environment.json"
    path.write_text(f"[0.5, {number}]")
    with pytest.raises(ValueError, match=rf"json is damaged: it is no JSON \(it has the number {number}\)"):
        read_json(path)
