"""The bytes inside plain, gzip, xz and tar files, never more than were asked for."""

from __future__ import annotations

import gzip
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from tribayes.data.problems import bad_file

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}


def unpack(path: Path, limit: int) -> bytearray:
    """What a file holds, up to one byte more than `limit`: enough to see that it is too long."""
    with _named(path), _OPENERS.get(path.suffix, open)(path, "rb") as file:
        return bytearray(file.read(limit + 1))


def unpack_archive(path: Path, limits: Mapping[str, int]) -> dict[str, bytearray]:
    """Those files of a tar.gz that `limits` names, whatever folder they are in. Nothing is written to disk."""
    held: dict[str, bytearray] = {}
    with _named(path), tarfile.open(path, "r:gz") as archive:
        for entry in archive:
            name = PurePosixPath(entry.name).name
            file = archive.extractfile(entry) if entry.isfile() and name in limits else None
            if file is not None:
                held[name] = bytearray(file.read(limits[name] + 1))
    return held


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Say which file it was that could not be unpacked."""
    try:
        yield
    except EOFError as error:
        raise bad_file(str(path), "is truncated: its packed data end too early") from error
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, tarfile.TarError) as error:
        raise bad_file(str(path), f"is corrupt: it cannot be unpacked ({error})") from error
