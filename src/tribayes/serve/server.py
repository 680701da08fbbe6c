"""The life of the server: an address to listen at, a token where others can reach it, and a clean end."""

from __future__ import annotations

import os
import re
import secrets
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from tribayes._errors import refusal
from tribayes.serve.app import LOCAL_NAMES, create_app
from tribayes.serve.gate import is_loopback
from tribayes.serve.limits import Limits
from tribayes.serve.monitoring import log_as_json
from tribayes.serve.subject import Subject
from tribayes.serve.table import TableSubject

_CONNECTIONS = 256  # at once; more get 503
_FAREWELL = 5  # seconds that answers under way are given
_PATIENCE = 60.0  # seconds beside those of an answer, for a question to come and its answer to be taken
_TOKEN = re.compile(r"[A-Za-z0-9._~-]+")  # what an address and a header carry as it is


class Impatient(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # uvicorn's, by h11 or by httptools
    """A connection that sends at once, and that is closed without a question, or with the same one, after some time.

    Else a few hundred that say nothing, or a byte now and then, would keep everybody else out.
    """

    def __init__(self, *arguments: Any, patience: float, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._patience = patience

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # asyncio does it for sockets made by name of their protocol alone; else an answer's body waits 40 ms for the
        # caller to acknowledge its head
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._look_again()

    def _look_again(self) -> None:
        self.loop.call_later(self._patience, self._look, self.cycle)

    def _look(self, before: object) -> None:
        """`cycle` is the question under way, or the one answered last."""
        if self.transport.is_closing():
            return
        if self.cycle is before:
            self.transport.abort()
        else:
            self._look_again()


class _Server(uvicorn.Server):
    """Ends by Ctrl-C or SIGTERM with what is under way answered, and then without an error."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(
    subject: Subject | TableSubject,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    names: tuple[str, ...] = (),
    limits: Limits | None = None,
) -> None:
    """Serve until told to end. On an address that others reach, a token is asked for; one is made where none is given.

    Args:
        subject: what is asked.
        host: where to listen.
        port: 0 takes any that is free.
        token: what a caller has to show: letters, digits, and any of - . _ ~.
        names: further names by which the server is called.
        limits: of requests.
    """
    limits = limits or Limits()
    if token is not None and not _TOKEN.fullmatch(token):
        requirement = "have letters, digits, and any of - . _ ~ alone, one or more"
        raise refusal("--token", f"{len(token)} characters", requirement, "leave it out, and one is made")
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(24)
    listening = _listen(host, port)
    port = listening.getsockname()[1]
    hosts = {*LOCAL_NAMES, host, *names}
    app = create_app(subject, limits, token, hosts)
    config = uvicorn.Config(
        app,
        http=partial(Impatient, patience=limits.seconds + _PATIENCE),  # type: ignore[arg-type]  # it is called, no more
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=_FAREWELL,
    )
    log_as_json()
    print(f"\n{_invitation(host, port, token)}", flush=True)
    with listening:
        _Server(config).run(sockets=[listening])


def _invitation(host: str, port: int, token: str | None) -> str:
    """What the terminal says; a server that listens everywhere is opened here, and elsewhere by its address."""
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host)
    shown = here or host
    address = f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/{f'#token={token}' if token else ''}"
    elsewhere = f" (on another machine with this one's address in place of {here})" if here else ""
    return f"Open {address} in a browser{elsewhere}; Ctrl-C ends it."


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        taken, remedy = os.strerror(error.errno or 0), "choose another --port, or --port 0 for any that is free"
        raise refusal("--host, --port", f"{host}:{port}", f"be free ({taken})", remedy) from error
