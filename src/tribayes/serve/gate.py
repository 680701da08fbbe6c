"""The door of the server: who may come in, with how much, and what every answer carries."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import secrets
from collections.abc import Collection
from contextlib import suppress
from time import perf_counter

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tribayes.serve.limits import Limits
from tribayes.serve.monitoring import LOGGER, Metrics

_OPEN = ("/healthz", "/readyz")  # for whoever looks after the machine; they say nothing but yes or no
_GUARDED = ("/api/", "/metrics")  # the page itself holds no data
_IMAGES = ("/api/predict",)  # where images go, which are larger than anything else
_LISTENED_TO = 64 * 2**20  # bytes of a body that is too long: a browser that cannot finish would not hear the refusal
_HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::\d+)?")
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens there.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return host == "localhost"


class _Cut(Exception):
    """The rest of a body is not taken."""


class _Body:
    """A request's body as it comes: `receive` ends it where it is longer, or later, than it may be."""

    def __init__(self, receive: Receive, most: int, seconds: float) -> None:
        self._receive, self._most, self._seconds = receive, most, seconds
        self._ends = asyncio.get_running_loop().time() + seconds
        self._come, self._whole = 0, False
        self.refused: tuple[int, str] | None = None  # status and words, once it was cut

    async def receive(self) -> Message:
        """The next part; when all is there, whatever the caller does."""
        try:
            async with asyncio.timeout_at(None if self._whole else self._ends):
                message = await self._receive()
        except TimeoutError as error:
            self.refused = 408, f"the body did not come within {self._seconds:g} seconds; send it faster, or less."
            raise _Cut from error
        self._come += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if self._come > self._most:
            await self.too_long()
            raise _Cut
        return message

    async def too_long(self) -> None:
        """Refuse it; take what is still coming, up to a bound, and forget it: see `_LISTENED_TO`."""
        self.refused = 413, f"the body must have at most {self._most:,} bytes; send a smaller one."
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._ends):
                while not self._whole and self._come < _LISTENED_TO:
                    message = await self._receive()
                    self._come += len(message.get("body", b""))
                    self._whole = not message.get("more_body", False)


class Gate:
    """Checks host, origin, token and body before a request goes on; counts and logs it, without what it carries.

    Args:
        app: what is behind.
        metrics: where requests are counted.
        hosts: names by which the server may be called, without port, beside its addresses; a page of another name
            that was made to point here (DNS rebinding) is refused.
        token: what a caller has to show, None: nothing.
        limits: of a body, and of the time in which it has to come.
    """

    def __init__(
        self, app: ASGIApp, metrics: Metrics, hosts: Collection[str], token: str | None, limits: Limits
    ) -> None:
        self._app, self._metrics, self._token, self._limits = app, metrics, token, limits
        self._hosts = {name.lower() for name in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = perf_counter(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        try:
            await self._checked(scope, receive, sending)
        finally:
            seconds = perf_counter() - started
            route = scope.get("route")
            path = getattr(route, "path", "other")
            self._metrics.note(scope["method"], path, status, seconds)
            facts = {"method": scope["method"], "path": path, "status": status, "ms": round(1e3 * seconds, 1)}
            LOGGER.info("request", extra={"facts": facts})

    async def _checked(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if refused := self._refused(scope["path"], headers):
            await refuse(send, *refused)
            return
        most = self._limits.body if scope["path"] in _IMAGES else self._limits.row
        body, begun = _Body(receive, most, self._limits.seconds), False

        async def sending(message: Message) -> None:
            nonlocal begun
            if body.refused is None:  # what is made of a body that was cut, nobody has to hear
                begun = True
                await send(message)

        announced = headers.get("content-length", "0")
        if not announced.isdecimal() or int(announced) > most:
            await body.too_long()
        else:
            with suppress(_Cut):
                await self._app(scope, body.receive, sending)
        if body.refused is not None and not begun:
            await refuse(send, *body.refused)

    def _refused(self, path: str, headers: Headers) -> tuple[int, str] | None:
        """Status and words for a caller who may not come in."""
        host = headers.get("host", "")
        if path not in _OPEN and not self._is_ours(_name(host)):
            names = ", ".join(sorted(self._hosts))
            return 421, f"this server is called {names}; open it by one of these, or start it with --name and another."
        origin = headers.get("origin")
        if origin is not None and origin.lower().partition("://")[2] != host.lower():
            return 403, "only the page of this server may ask it from a browser."
        if self._token is not None and path.startswith(_GUARDED):
            shown = headers.get("authorization", "").removeprefix("Bearer ")
            if not secrets.compare_digest(shown.encode(), self._token.encode()):
                return (
                    401,
                    "a token is needed; open the address that the server printed, or send it as Bearer.",
                )
        return None

    def _is_ours(self, name: str) -> bool:
        """An address always is: whoever makes a name point here calls us by that name."""
        return name in self._hosts or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _name(host: str) -> str:
    """The name in a Host header, without port or brackets; nothing where it is none.

    >>> _name("LocalHost:8000"), _name("[::1]:8000"), _name("127.0.0.1"), _name("[")
    ('localhost', '::1', '127.0.0.1', '')
    """
    found = _HOST.fullmatch(host.lower())
    return (found["name"] or found["address"]) if found else ""


async def refuse(send: Send, status: int, words: str) -> None:
    """An answer that says why there is none."""
    content = json.dumps({"error": words}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
    headers += [(b"connection", b"close")] if status in (408, 413) else []  # for the rest of the body is not wanted
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
