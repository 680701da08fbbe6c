"""One file from the first mirror that has it: streamed, resumed, bounded, and checked before it gets its name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib import request
from urllib.error import HTTPError, URLError

from tribayes._files import only_one, put_in_place
from tribayes._progress import progress_bar
from tribayes.data.catalogue import Packed

_ATTEMPTS = 5  # with one mirror, as long as each brings the file further
_CHUNK = 2**18
_HEADERS = {"User-Agent": "tribayes", "Accept-Encoding": "identity"}


class DownloadError(Exception):
    """What a mirror did instead of giving the file; of several, a line for each."""


def fetch(packed: Packed, folder: Path, progress: bool = True, timeout: float = 30.0) -> Path:
    """Bring a file into `folder`. A transfer cut off leaves FILE.part, and the next call goes on from there.

    Processes that start together wait for each other: they would write into the same part.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target, part = folder / packed.name, folder / f"{packed.name}.part"
    failures = []
    with only_one(folder, wait=True):
        if target.is_file():  # another process was first
            return target
        for url in packed.urls:
            try:
                _from_mirror(url, packed, part, progress, timeout)
            except (OSError, HTTPException, DownloadError) as error:
                failures.append(f"{url}: {_reason(error)}")
            else:
                put_in_place(part, target)
                return target
    raise DownloadError("\n".join(failures))


def _from_mirror(url: str, packed: Packed, part: Path, progress: bool, timeout: float) -> None:
    """Complete `part` from one mirror, and check it."""
    for attempts_left in reversed(range(_ATTEMPTS)):
        kept = _size(part)
        start = _receive(url, packed, part, kept, progress, timeout) if kept < packed.size else kept
        if (held := _size(part)) < packed.size:
            if attempts_left and held > kept:
                continue
            raise DownloadError(f"cut off after {held:,} of {packed.size:,} bytes")
        with part.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest == packed.sha256:
            return
        part.unlink()
        if start == 0 or not attempts_left:  # else what was kept may have been the wrong part: once more, from 0
            raise DownloadError(f"wrong content, with sha256 {digest}, not {packed.sha256}")


def _receive(url: str, packed: Packed, part: Path, kept: int, progress: bool, timeout: float) -> int:
    """Add to `part` what comes, and return where the mirror began: at `kept`, or at 0 if it cannot resume."""
    resume = {"Range": f"bytes={kept}-"} if kept else {}
    try:
        response = _opener().open(request.Request(url, headers=_HEADERS | resume), timeout=timeout)
    except HTTPError as error:
        error.close()
        if error.code == 416 and kept:
            return _receive(url, packed, part, 0, progress, timeout)
        raise
    with response:
        start = kept if response.status == 206 else 0
        if start and not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            return _receive(url, packed, part, 0, progress, timeout)
        if response.length is not None and start + response.length != packed.size:
            raise DownloadError(f"it offers {start + response.length:,} bytes, not {packed.size:,}")
        with part.open("ab" if start else "wb") as file, progress_bar(packed.name, packed.size, progress) as advance:
            advance(start)
            for chunk in _chunks(response):
                file.write(chunk)
                advance(len(chunk))
                if file.tell() > packed.size:
                    break
    if _size(part) > packed.size:
        part.unlink()
        raise DownloadError(f"it sends more than the {packed.size:,} bytes of this file")
    return start


def _chunks(response: HTTPResponse) -> Iterator[bytes]:
    """What arrives, until it ends, however it ends: the count tells whether it was all."""
    with suppress(OSError, HTTPException):
        while chunk := response.read(_CHUNK):
            yield chunk


def _opener() -> request.OpenerDirector:
    """http and https only, also after a redirect; the usual one would read file: and ftp: too."""
    opener = request.OpenerDirector()
    for scheme in (request.ProxyHandler, request.HTTPHandler, request.HTTPSHandler, request.UnknownHandler):
        opener.add_handler(scheme())
    for answer in (request.HTTPRedirectHandler, request.HTTPDefaultErrorHandler, request.HTTPErrorProcessor):
        opener.add_handler(answer())
    return opener


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _reason(error: Exception) -> str:
    if isinstance(error, HTTPError):
        return f"HTTP {error.code} {error.reason}"
    return str(error.reason if isinstance(error, URLError) else error) or type(error).__name__
