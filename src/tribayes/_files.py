"""Files that are there whole or not at all, also after a crash or a power cut; folders for one process at a time."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from tribayes._errors import refusal, wrong_type

_NAME_BYTES = 200  # of a name, before number and ending, and with room for that of the file before it is finished
_DEVICES = Path("/dev")
MOST_JSON = 32_000_000  # bytes of a file, which takes up to eight times as much once it is read

# EBADF: NFS locks only what is open for writing, which a folder never is
_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF}
_REMEDIES: dict[type[OSError], str] = {
    FileNotFoundError: "make its folder first, or choose another folder",
    IsADirectoryError: "add the name of a file to it",
}


def path_of(argument: str, value: Any, *, folder: bool = False) -> Path:
    """A path that someone gave, "~" being the home folder; an error for what cannot be the name of a file.

    >>> path_of("path", "model.safetensors").suffix
    '.safetensors'
    >>> path_of("data_dir", ".", folder=True).is_dir()
    True
    """
    kind, example = ("folder", "data") if folder else ("file", "model.safetensors")
    try:
        path = Path(value).expanduser()
        if b"\0" not in os.fsencode(path) and (path.name or folder):  # "." and "/" have no name
            return path
    except TypeError:
        raise wrong_type(argument, value, "be a path", f'pass e.g. "{example}"') from None
    except (UnicodeEncodeError, RuntimeError):  # the latter for the home of nobody
        pass
    raise refusal(argument, str(value), f"name a {kind}, without a zero byte or half a character", "correct the name")


def shortened(stem: str) -> str:
    """A file's name, in front of an ending, cut where file systems could not take it: they take 255 bytes in all.

    >>> len(shortened("ü" * 200))
    100
    """
    return os.fsencode(stem)[:_NAME_BYTES].decode(errors="ignore")


def store(path: Path, content: bytes, *, contested: bool = False) -> None:
    """Write a file in one step: until the new content is on the disk, the old file stays as it was.

    The content goes to a temporary file beside it, always of the same name: the next write takes over what a crash
    leaves behind. Where processes may write at the same time (`contested`), each has its own, and the last one wins.

    >>> store(folder / "numbers.txt", b"1 2 3")
    >>> (folder / "numbers.txt").read_bytes()
    b'1 2 3'
    """
    temporary = path.with_name(f".{path.name}.{uuid4().hex if contested else 'new'}")
    try:
        with _writing(path):
            _check_place(path)
            temporary.unlink(missing_ok=True)  # a link of that name would be written through
            with temporary.open("xb") as file:
                file.write(content)
            put_in_place(temporary, path)
    except BaseException:
        with suppress(OSError):  # there may be nothing to remove, nor the right to
            temporary.unlink()
        raise


def _check_place(path: Path) -> None:
    """Refuse devices, pipes and the like: the new file would take their place, for everybody on the machine."""
    if path.absolute().parent == _DEVICES or (path.exists() and not (path.is_file() or path.is_dir())):
        raise refusal("path", str(path), "name a plain file, but is a device or a pipe", "choose another name")


def put_in_place(finished: Path, path: Path) -> None:
    """Give a finished file of the same folder its name, in one step, once its content is on the disk."""
    with finished.open("r+b") as file:  # Windows syncs only what is open for writing
        os.fsync(file.fileno())
    os.replace(finished, path)
    if os.name != "nt":  # let the new name survive a power cut too; Windows opens no folders
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def store_json(path: Path, value: Any, *, contested: bool = False) -> None:
    """Write plain values as a JSON file, as `store` does; NaN and infinity, which JSON does not have, are refused.

    >>> store_json(folder / "scores.json", {"error": 0.02})
    >>> read_json(folder / "scores.json")
    {'error': 0.02}
    """
    store(path, (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode(), contested=contested)


def read_json(path: Path) -> Any:
    """What a JSON file holds; an error that names the file where it cannot be read, or is larger than any of ours."""
    if (size := path.stat().st_size) > MOST_JSON:
        problem = f"it holds {size / 1e6:,.0f} MB, and none of ours more than {MOST_JSON / 1e6:,.0f}"
        raise ValueError(f"{path} is damaged: {problem}; restore it, or start anew elsewhere.")
    try:
        return json.loads(path.read_bytes(), parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError) as error:  # the second where brackets are nested thousands deep
        raise ValueError(f"{path} is damaged: it is no JSON ({error}); restore it, or start anew elsewhere.") from error


def _finite(text: str) -> float:
    """The number; JSON has neither NaN nor infinity, and `store_json` could not write it again."""
    if not math.isfinite(value := float(text)):
        raise ValueError(f"it has the number {text[:20]}")
    return value


def add_line(path: Path, line: str) -> None:
    """Append a line. A crash may leave a part of it, and never touches the lines before."""
    with _writing(path), path.open("ab") as file:
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def make_folder(folder: Path) -> None:
    """Make a folder and those above it; one that is there already is left as it is."""
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Say what to do where a disk is full, a folder is read-only, and the like."""
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(type(error), "free some space or make its folder writable, or choose another folder")
        raise OSError(
            f"{path} could not be written: {error.strerror or error}; {remedy}. What was there before is unchanged."
        ) from error


@contextmanager
def only_one(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the folder, for one process at a time. The system lets go of it when a process ends or is killed.

    Where another process holds it: an error, or with `wait` a pause until it lets go. Where a file system locks no
    folders (some network ones) or there is no such lock (Windows), nothing is held.

    >>> with only_one(folder):
    ...     store(folder / "mine.txt", b"nobody else writes here")
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            remedy = "wait for it, or choose another folder"
            raise refusal("--run", str(folder), "be free, but another process trains in it", remedy) from error
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
        yield
    finally:
        os.close(handle)
