"""What holds for every test."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

HERE = ("localhost", "127.0.0.1", "::1", "", None, b"localhost", b"127.0.0.1")

# The tests are small: a second thread gains nothing, and on a busy machine two that wait for each other lose minutes.
torch.set_num_threads(1)


def refuse_the_network(event: str, arguments: tuple[Any, ...]) -> None:
    """No test leaves this machine: whoever tries is stopped, and not by an error that a download would expect."""
    if event == "socket.connect":
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else "localhost"  # else a path: a socket of the file system
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    if host not in HERE:
        raise RuntimeError(f"a test may not connect to {host!r}: it must run without a network")


os.environ.update(WANDB_MODE="offline", WANDB_ERROR_REPORTING="false")  # wandb reports its use from a thread of its own
sys.addaudithook(refuse_the_network)
