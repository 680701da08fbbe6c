"""No test leaves this machine, nor does a process that a test starts: Python imports this file as it begins.

tests/conftest.py imports it, and puts this folder on the PYTHONPATH that children inherit.
"""

from __future__ import annotations

import sys
from typing import Any

HERE = ("localhost", "127.0.0.1", "::1", "", None, b"localhost", b"127.0.0.1")
NAMED = ("socket.getaddrinfo", "socket.gethostbyname")
ADDRESSED = ("socket.connect", "socket.sendto", "socket.sendmsg")


def refuse_the_network(event: str, arguments: tuple[Any, ...]) -> None:
    """Whoever tries is stopped, and not by an error that a download would expect."""
    if event in ADDRESSED:
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else "localhost"  # else a path: a socket of the file system
    elif event in NAMED:
        host = arguments[0]
    else:
        return
    if host not in HERE and not _names_this_machine(host):
        raise RuntimeError(f"a test may not connect to {host!r}: it must run without a network")


def _names_this_machine(host: object) -> bool:
    import socket  # whose events alone come here

    return host in (socket.gethostname(), socket.gethostname().encode())


sys.addaudithook(refuse_the_network)
