"""Files that are there whole or not at all, also after a crash or a power cut; folders for one process at a time."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tribayes._errors import refusal

_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL}


def store(path: Path, content: bytes) -> None:
    """Write a file in one step: until the new content is on the disk, the old file stays as it was."""
    temporary = path.with_name(f".{path.name}.new")  # one name: what a crash leaves behind, the next write takes over
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):  # there may be nothing to remove, nor the right to
            temporary.unlink()
        raise not_written(path, error) from error


def store_json(path: Path, value: Any) -> None:
    store(path, (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """What a JSON file holds; an error that names the file where it cannot be read."""
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is damaged: it is no JSON ({error}); restore it, or start anew elsewhere.") from error


def add_line(path: Path, line: str) -> None:
    """Append a line. A crash may leave a part of it, and never touches the lines before."""
    try:
        with path.open("ab") as file:
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise not_written(path, error) from error


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_written(folder, error) from error


def not_written(path: Path, error: OSError) -> OSError:
    """The error for a disk that is full, a folder that is read-only, and the like."""
    return OSError(
        f"{path} could not be written: {error.strerror or error}; free some space or make its folder writable, or "
        "choose another folder. What was there before is unchanged."
    )


def _sync_folder(folder: Path) -> None:
    """Let the new name survive a power cut too."""
    if os.name == "nt":  # Windows opens no folders
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold the folder; an error where another process does. The system lets go of it when a process ends or is killed.

    Where a file system locks no folders (some network ones) or there is no such lock (Windows), nothing is held.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            remedy = "wait for it, or choose another folder"
            raise refusal("--run", str(folder), "be free, but another process trains in it", remedy) from error
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
        yield
    finally:
        os.close(handle)
