"""The door of the server: who may come in, with how much, and what every answer carries."""

from __future__ import annotations

import ipaddress
import json
import re
import secrets
from collections.abc import Collection, Mapping
from time import perf_counter
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tribayes.serve.monitoring import LOGGER, Metrics

_OPEN = ("/healthz", "/readyz")  # for whoever looks after the machine; they say nothing but yes or no
_GUARDED = ("/api/", "/metrics")  # the page itself holds no data
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


class Gate:
    """Checks host, origin, token and length before a request goes on; counts and logs it, without what it carries.

    Args:
        app: what is behind.
        metrics: where requests are counted.
        hosts: names by which the server may be called, without port; a page of another name that was made to point
            here (DNS rebinding) is refused.
        token: what a caller has to show, None: nothing.
        most_bytes: of a body, by the path that it is sent to; of others the least of these.
    """

    def __init__(
        self, app: ASGIApp, metrics: Metrics, hosts: Collection[str], token: str | None, most_bytes: Mapping[str, int]
    ) -> None:
        self._app, self._metrics, self._token, self._most = app, metrics, token, most_bytes
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
        announced, come = headers.get("content-length", "0"), 0
        most = self._most.get(scope["path"], min(self._most.values()))
        words = f"the body must have at most {most:,} bytes; send a smaller one"
        if not announced.isdecimal() or int(announced) > most:
            await _let_finish(receive)
            await refuse(send, 413, f"{words}.")
            return

        async def counting() -> Message:
            nonlocal come
            message = await receive()
            come += len(message.get("body", b""))
            if come > most:
                if message.get("more_body", False):  # else nothing more comes, and waiting for it would have no end
                    await _let_finish(receive)
                raise HTTPException(413, words)  # FastAPI, which reads the body, lets no other error through
            return message

        await self._app(scope, counting, send)

    def _refused(self, path: str, headers: Headers) -> tuple[int, str] | None:
        """Status and words for a caller who may not come in."""
        host = headers.get("host", "")
        if path not in _OPEN and _name(host) not in self._hosts:
            names = ", ".join(sorted(self._hosts))
            return 421, f"this server is called {names}; other names, such as one that was made to point here, are not."
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


def _name(host: str) -> str:
    """The name in a Host header, without port or brackets; nothing where it is none.

    >>> _name("LocalHost:8000"), _name("[::1]:8000"), _name("127.0.0.1"), _name("[")
    ('localhost', '::1', '127.0.0.1', '')
    """
    found = _HOST.fullmatch(host.lower())
    return (found["name"] or found["address"]) if found else ""


async def _let_finish(receive: Receive) -> None:
    """Take what is still coming, up to a bound, and forget it."""
    taken, more = 0, True
    while more and taken < _LISTENED_TO:
        message: Any = await receive()
        taken += len(message.get("body", b""))
        more = message.get("more_body", False)


async def refuse(send: Send, status: int, words: str) -> None:
    """An answer that says why there is none."""
    content = json.dumps({"error": words}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
