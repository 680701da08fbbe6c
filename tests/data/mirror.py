"""A web server on this machine that can do everything a bad mirror does."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Mirror:
    """Serves `files` (path → bytes) and notes what it was asked for, as (path, Range header)."""

    files: dict[str, bytes] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)  # an answer each: bytes after which it is cut off
    ranges: str = "served"  # or: ignored, refused, wrong
    announced: bool = True  # whether answers state their length
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server.server_port}{path}"

    def __enter__(self) -> Mirror:
        self.server = _Server(("127.0.0.1", 0), _Handler)
        self.server.mirror = self
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class _Server(ThreadingHTTPServer):
    mirror: Mirror

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        mirror, asked = self.server.mirror, self.headers.get("Range")
        mirror.asked.append((self.path, asked))
        if self.path in mirror.redirects:
            self._answer(302, {"Location": mirror.redirects[self.path]})
        elif self.path not in mirror.files:
            self._answer(404, {})
        elif asked and mirror.ranges == "refused":
            self._answer(416, {})
        else:
            self._send(mirror, mirror.files[self.path], asked)

    def _send(self, mirror: Mirror, body: bytes, asked: str | None) -> None:
        status, headers = 200, {}
        if asked and mirror.ranges != "ignored":
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            shown = 0 if mirror.ranges == "wrong" else start
            status, headers = 206, {"Content-Range": f"bytes {shown}-{len(body) - 1}/{len(body)}"}
            body = body[start:]
        if mirror.announced:
            headers["Content-Length"] = str(len(body))
        self._answer(status, headers)
        self.wfile.write(body[: mirror.cuts.pop(0)] if mirror.cuts else body)

    def _answer(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Quiet."""
