"""A server under load: requests a second, times, errors, whether answers stay the same, whether memory grows.

    python -m benchmarks.serve_load [--seconds 60] [--clients 1 8 32] [--requests 100000] [--quick]

`tribayes serve` runs as a process of its own on this machine's loopback; so many clients each ask without a pause for
so many seconds. An answer under load is compared with the one to the same image asked alone. Then eight clients ask so
many requests, and what the process holds in memory is noted 20 times on the way; then it is told to end. Kept in
benchmarks/results/serve_load-cpu.json.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import Any, NamedTuple

import torch

from benchmarks import machine, store
from tribayes._text import format_table
from tribayes.data import load_digits

IMAGES = 20
TOLERANCE = 5e-6  # of a probability: roundings depend on how many are asked about at once
MOST_SECONDS = 600

_LOOKS, _CLIENTS = 20, 8  # while memory is watched


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help=f"for each load, at most {MOST_SECONDS}")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--requests", type=int, default=100_000, help="while memory is watched")
    parser.add_argument("--iterations", type=int, default=300, help="of the training before it")
    parser.add_argument("--quick", action="store_true", help="nothing is kept")
    arguments = parser.parse_args(words)
    seconds = min(arguments.seconds, MOST_SECONDS)
    bodies = [json.dumps({"pixels": image[0].tolist()}).encode() for image in load_digits().test_images[:IMAGES]]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [sys.executable, "-m", "tribayes"]
        subprocess.run(
            [*command, "fit", "--run", run, "--iterations", str(arguments.iterations)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        server = subprocess.Popen(
            [*command, "serve", run, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            port = _port(server)
            alone = [_ask(http.client.HTTPConnection("127.0.0.1", port), body)[1] for body in bodies]
            loads = [_load(port, clients, seconds, bodies, alone) for clients in arguments.clients]
            held = _memory(port, server.pid, arguments.requests, bodies, alone)
        finally:
            server.send_signal(signal.SIGTERM)
            ended = server.wait(60)
    header = ["clients", "requests", "requests/s", "p50, ms", "p99, ms", "errors", "changed answers"]
    print(format_table(header, [list(load.values()) for load in loads]))
    print(
        f"\nmemory over {held['requests']:,} requests, MB: {', '.join(f'{each:.0f}' for each in held['megabytes'])}; "
        f"{held['errors']} errors, {held['changed']} changed answers; the server ended with {ended}"
    )
    if not arguments.quick:
        figures = {"loads": loads, "memory": held, "ended_with": ended}
        store.save("serve_load", machine.describe(torch.device("cpu")), figures, store.RESULTS, quick=False)


def _port(server: subprocess.Popen[str]) -> int:
    assert server.stdout is not None
    found = None
    while found is None:
        line = server.stdout.readline()
        if not line:
            raise SystemExit("the server ended before it listened")
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
    port, ends = int(found[1]), monotonic() + 60
    while monotonic() < ends:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/api/gallery")
        reply = json.loads(connection.getresponse().read())
        if reply.get("looked_at") == reply.get("of") and reply.get("of"):
            return port
        sleep(0.2)
    raise SystemExit("the server was not ready within a minute")


def _ask(connection: http.client.HTTPConnection, body: bytes) -> tuple[int, Any]:
    connection.request("POST", "/api/predict?prepare=false", body, {"content-type": "application/json"})
    reply = connection.getresponse()
    return reply.status, json.loads(reply.read())


class _Told(NamedTuple):
    """What clients met: how long each answer took, in seconds, and how many were none, or other than alone."""

    times: list[float]
    wrong: Counter[str]


def _load(port: int, clients: int, seconds: float, bodies: list[bytes], alone: list[Any]) -> dict[str, float]:
    """So many clients for so many seconds."""
    started, ends = perf_counter(), monotonic() + seconds
    told = _asked(port, clients, lambda _: monotonic() < ends, bodies, alone)
    took, times = perf_counter() - started, sorted(told.times)
    return {
        "clients": clients,
        "requests": len(times),
        "requests_per_second": len(times) / took,
        "p50_ms": 1e3 * times[len(times) // 2],
        "p99_ms": 1e3 * times[int(0.99 * len(times))],
        "errors": told.wrong["errors"],
        "changed": told.wrong["changed"],
    }


def _memory(port: int, process: int, requests: int, bodies: list[bytes], alone: list[Any]) -> dict[str, Any]:
    """What the server holds at the start and after each twentieth of so many requests."""
    held, wrong, part = [_megabytes(process)], Counter[str](), -(-requests // (_LOOKS * _CLIENTS))
    for _ in range(_LOOKS):
        wrong += _asked(port, _CLIENTS, lambda done: done < part, bodies, alone).wrong
        held.append(_megabytes(process))
    return {
        "requests": _LOOKS * _CLIENTS * part,
        "clients": _CLIENTS,
        "megabytes": held,
        "errors": wrong["errors"],
        "changed": wrong["changed"],
    }


def _asked(port: int, clients: int, goes_on: Callable[[int], bool], bodies: list[bytes], alone: list[Any]) -> _Told:
    """Clients that ask without a pause, each as long as `goes_on` says to how much it has asked."""

    def client(number: int) -> _Told:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        times, wrong = list[float](), Counter[str]()
        while goes_on(len(times)):
            which = (number + len(times)) % len(bodies)
            started = perf_counter()
            try:
                status, answer = _ask(connection, bodies[which])
            except (OSError, http.client.HTTPException):
                connection.close()
                status, answer = 0, None
            times.append(perf_counter() - started)
            wrong["errors"] += status != 200
            wrong["changed"] += status == 200 and not _same(answer, alone[which])
        connection.close()
        return _Told(times, wrong)

    with ThreadPoolExecutor(clients) as pool:
        done = list(pool.map(client, range(clients)))
    return _Told([time for each in done for time in each.times], sum((each.wrong for each in done), Counter[str]()))


def _same(one: Any, other: Any) -> bool:
    pairs = zip(one["probabilities"], other["probabilities"], strict=True)
    return one["certain"] == other["certain"] and all(abs(a - b) <= TOLERANCE for a, b in pairs)


def _megabytes(process: int) -> float:
    """What a process holds, by Linux's own account."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


if __name__ == "__main__":
    main()
