"""One process at a time in a run folder: two that train in it would spoil each other's files."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tribayes._errors import refusal

_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL}


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
