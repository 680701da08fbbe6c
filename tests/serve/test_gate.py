"""The door: bodies that are too long or never end, names and addresses, and what the terminal says of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.serve.serving import client_of
from tribayes.serve.app import create_app
from tribayes.serve.gate import Gate
from tribayes.serve.limits import Limits
from tribayes.serve.monitoring import Metrics
from tribayes.serve.server import _invitation
from tribayes.serve.subject import Subject

ASKING = ["/api/predict", "/api/row", "/api/regression"]


def parts(megabytes: int) -> Iterator[bytes]:
    """A body whose length nobody announces."""
    for _ in range(megabytes):
        yield b" " * 2**20


def asked(app: Any, path: str, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """What is answered to a caller who sends these parts of a body, and then neither more nor goodbye."""
    coming, sent = list(messages), list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        if coming:
            return coming.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    asyncio.run(app(scope, receive, send))
    return sent


@pytest.mark.parametrize("path", ASKING)
def test_a_body_that_is_not_announced_has_its_limit_too(client: TestClient, path: str) -> None:
    headers = {"content-type": "application/json"}
    most = Limits().body if path == "/api/predict" else Limits().row
    answer = client.post(path, content=parts(most // 2**20 + 1), headers=headers)
    assert (answer.status_code, answer.headers["connection"]) == (413, "close"), answer.text
    assert f"must have at most {most:,} bytes" in answer.json()["error"]
    assert client.post(path, content=parts(most // 2**20), headers=headers).status_code != 413


@pytest.mark.parametrize("path", ASKING)
def test_who_never_finishes_is_told_so(subject: Subject, path: str) -> None:
    app = create_app(subject, Limits(seconds=0.2))
    start, body = asked(app, path, {"type": "http.request", "body": b"{", "more_body": True})
    assert (start["status"], dict(start["headers"])[b"connection"]) == (408, b"close")
    assert "did not come within 0.2 seconds" in json.loads(body["body"])["error"]


def test_a_whole_body_is_waited_for_no_more() -> None:
    """Who listens for the caller's goodbye while it answers, as streams do, is not cut short by the limit."""
    heard = []

    async def app(_: Any, receive: Any, send: Any) -> None:
        heard.append(await receive())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(receive(), 0.3)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    door = Gate(app, Metrics(), ("127.0.0.1",), None, Limits(seconds=0.1))
    start, _ = asked(door, "/", {"type": "http.request", "body": b"{}", "more_body": False})
    assert (start["status"], heard[0]["body"]) == (200, b"{}")


def test_an_address_is_always_its_own(subject: Subject) -> None:
    """As a phone calls a server that listens everywhere; a name that was made to point here is no address."""
    with client_of(subject) as client:
        for host in ("192.168.1.5:8000", "[fe80::1]:8000", "testserver"):
            assert client.get("/api/run", headers={"host": host}).status_code == 200
        answer = client.get("/api/run", headers={"host": "192.168.1.5.evil.example"})
        assert answer.status_code == 421
        assert "start it with --name and another" in answer.json()["error"]


def test_the_terminal_names_an_address_that_opens() -> None:
    assert _invitation("127.0.0.1", 8000, None) == "Open http://127.0.0.1:8000/ in a browser; Ctrl-C ends it."
    words = "Open http://127.0.0.1:80/#token=t in a browser (on another machine with this one's address in place of "
    assert _invitation("0.0.0.0", 80, "t") == f"{words}127.0.0.1); Ctrl-C ends it."
    assert _invitation("::", 80, "t").startswith("Open http://[::1]:80/#token=t ")
    assert _invitation("fe80::1", 80, "t").startswith("Open http://[fe80::1]:80/#token=t in a browser;")
