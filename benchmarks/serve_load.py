"""A server under load: requests a second, times, errors, whether answers stay the same, whether memory grows.

    python -m benchmarks.serve_load [--seconds 60] [--clients 1 8 32] [--quick]

`tribayes serve` runs as a process of its own on this machine's loopback; so many clients each ask without a pause for
so many seconds, then it is told to end. An answer under load is compared with the one to the same image asked alone.
Memory is what the process holds before and after. Kept in benchmarks/results/serve_load-cpu.json.
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
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import Any

import torch

from benchmarks import machine, store
from tribayes._text import format_table
from tribayes.data import load_digits

IMAGES = 20
TOLERANCE = 5e-6  # of a probability: roundings depend on how many are asked about at once
MOST_SECONDS = 600


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help=f"for each load, at most {MOST_SECONDS}")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
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
            loads = [_load(port, server.pid, clients, seconds, bodies, alone) for clients in arguments.clients]
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(30)
    header = ["clients", "requests/s", "p50, ms", "p99, ms", "errors", "changed answers", "MB before", "MB after"]
    print(format_table(header, [list(load.values()) for load in loads]))
    if not arguments.quick:
        store.save("serve_load", machine.describe(torch.device("cpu")), {"loads": loads}, store.RESULTS, quick=False)


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


def _load(
    port: int, process: int, clients: int, seconds: float, bodies: list[bytes], alone: list[Any]
) -> dict[str, float]:
    before, ends = _megabytes(process), monotonic() + seconds

    def client(number: int) -> tuple[list[float], Counter[str]]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        times, wrong = [], Counter[str]()
        while monotonic() < ends:
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
        return times, wrong

    with ThreadPoolExecutor(clients) as pool:
        done = list(pool.map(client, range(clients)))
    times = sorted(time for each, _ in done for time in each)
    wrong = sum((counts for _, counts in done), Counter[str]())
    return {
        "clients": clients,
        "requests_per_second": len(times) / seconds,
        "p50_ms": 1e3 * times[len(times) // 2],
        "p99_ms": 1e3 * times[int(0.99 * len(times))],
        "errors": wrong["errors"],
        "changed": wrong["changed"],
        "megabytes_before": before,
        "megabytes_after": _megabytes(process),
    }


def _same(one: Any, other: Any) -> bool:
    pairs = zip(one["probabilities"], other["probabilities"], strict=True)
    return one["certain"] == other["certain"] and all(abs(a - b) <= TOLERANCE for a, b in pairs)


def _megabytes(process: int) -> float:
    """What a process holds, by Linux's own account."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


if __name__ == "__main__":
    main()
