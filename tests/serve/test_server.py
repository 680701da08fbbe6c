"""The life of the server: who is let go of, and what is refused before it begins."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn

from tests.patience import PATIENCE
from tests.serve.serving import until
from tribayes.serve.server import Impatient, serve

HEAD = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\n"
SLOW = {"nothing": b"", "half a head": HEAD[:20], "half a body": HEAD + b"12", "a whole question": HEAD + b"12345"}
PATIENCES = (0.2, 1.0, 5.0)  # of servers, tried in turn: on a busy machine a caller may come too late for the first


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Take the whole body, and answer by its length."""
    del scope
    length, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        length, more = length + len(message["body"]), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]})
    await send({"type": "http.response.body", "body": str(length).encode()})


@contextmanager
def impatient(patience: float) -> Iterator[tuple[str, int]]:
    """A server that closes such connections soon."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(echo, http=partial(Impatient, patience=patience), lifespan="off", log_config=None)  # type: ignore[arg-type]
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        until(lambda: server.started)
        yield listening.getsockname()
        server.should_exit = True
        thread.join(PATIENCE)


def test_no_answer_waits_for_its_head_to_be_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    """By Nagle's algorithm its body would, 40 ms."""
    found, made = [], Impatient.connection_made

    def noted(self: Impatient, transport: Any) -> None:
        made(self, transport)
        found.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(Impatient, "connection_made", noted)
    with impatient(PATIENCE) as address, socket.create_connection(address, timeout=PATIENCE) as connection:
        connection.sendall(HEAD + b"12345")
        assert connection.recv(1)
    assert len(found) == 1
    assert found[0]


def closed(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    said = b""
    try:
        while part := connection.recv(1000):
            said += part
    except ConnectionResetError:
        pass
    return said


@pytest.mark.parametrize("name", SLOW)
def test_who_neither_asks_nor_ends_is_let_go(name: str) -> None:
    """A connection stays open for nobody: of those that are answered uvicorn closes what says nothing more."""

    def last_said(patience: float) -> bytes:
        with impatient(patience) as address, socket.create_connection(address, timeout=PATIENCE) as connection:
            connection.sendall(SLOW[name])
            return closed(connection)[-1:]

    assert any(last_said(patience) == (b"5" if name == "a whole question" else b"") for patience in PATIENCES)


def test_who_asks_again_and_again_stays() -> None:
    assert any(stays(patience) for patience in PATIENCES)


def stays(patience: float) -> bool:
    """Whether twenty questions are answered, which take five times as long as who says nothing is let stay."""
    with impatient(patience) as address, socket.create_connection(address, timeout=PATIENCE) as connection:
        for _ in range(20):
            try:
                connection.sendall(HEAD + b"12345")
                said = b""
                while not said.endswith(b"\r\n\r\n5"):
                    part = connection.recv(1000)
                    if not part:
                        return False
                    said += part
            except ConnectionError:
                return False
            threading.Event().wait(patience / 4)
    return True


@pytest.mark.parametrize("name", ["uvicorn.error", "asyncio"])
def test_what_others_say_in_the_server_is_a_line_of_json(name: str) -> None:
    """In a process of its own: whoever logs is changed for good."""
    words = f"logging.getLogger({name!r}).warning('socket.send() raised exception.')"
    code = f"import logging; from tribayes.serve.monitoring import log_as_json; log_as_json(); {words}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    line = json.loads(done.stderr)
    assert (line["level"], line["event"]) == ("warning", "socket.send() raised exception.")


@pytest.mark.parametrize("token", ["", "two words", "a#b", "süß", "a\n"])
def test_a_token_that_no_address_carries_or_that_is_none_is_refused(token: str) -> None:
    subject: Any = SimpleNamespace()
    with pytest.raises(
        ValueError, match=r"`--token` \(='\d+ characters'\) must have letters, digits, and any of"
    ) as found:
        serve(subject, token=token)
    assert not token or token not in str(found.value)
