"""Nothing is connected to at import, in training or in prediction, and no test leaves the machine."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from tests.patience import PATIENCE

SCRIPT = """
import sys
def refuse(event, arguments):
    if event.startswith("socket.") and event not in ("socket.gethostname", "socket.__new__"):
        raise RuntimeError(f"{event} {arguments}")
sys.addaudithook(refuse)
import torch
import tribayes as tb
model = tb.to_bayesian(torch.nn.Linear(2, 3))
x, y = torch.ones(4, 2), torch.tensor([0, 1, 2, 0])
optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.1))
tb.fit(model, tb.ELBO(tb.Categorical(), data_size=4), [(x, y)], optimizer, epochs=1, progress=False)
tb.predict(model, x, 2, progress=False)
tb.data, tb.runs, tb.plots, tb.report
import tribayes.cli
print("done")
"""


def test_importing_training_and_asking_connect_to_nothing() -> None:
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=PATIENCE)
    assert (ended.stdout, ended.stderr) == ("done\n", "")


CHILD = """
import socket
try:
    socket.create_connection(("192.0.2.1", 9), timeout=1)
except RuntimeError as error:
    print(error)
"""


def test_a_process_that_a_test_starts_is_stopped_too() -> None:
    ended = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=PATIENCE)
    assert (ended.stdout, ended.stderr) == (
        "a test may not connect to '192.0.2.1': it must run without a network\n",
        "",
    )


def test_datagrams_and_names_are_stopped() -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one,
        pytest.raises(RuntimeError, match=r"a test may not connect to '192\.0\.2\.1'"),
    ):
        one.sendto(b"hello", ("192.0.2.1", 9))
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one,
        pytest.raises(RuntimeError, match=r"a test may not connect to '192\.0\.2\.1'"),
    ):
        one.sendmsg([b"hello"], [], 0, ("192.0.2.1", 9))
    with pytest.raises(RuntimeError, match=r"a test may not connect to 'example\.org'"):
        socket.gethostbyname("example.org")


@pytest.mark.parametrize("host", ["192.0.2.1", "example.org", "0.0.0.0"])
def test_a_test_that_leaves_the_machine_is_stopped(host: str) -> None:
    with pytest.raises(RuntimeError, match=f"a test may not connect to '{host}'"):
        socket.create_connection((host, 9), timeout=1)


def test_a_test_may_talk_to_itself() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=PATIENCE).close()
