"""What docs/playground.md says of the server's speed: written by `python -m benchmarks.notes`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.performance.markdown import number
from pages.markdown import markdown_table

_WAYS = {"server": "in the server", "browser": "in a browser, until the frame that shows it"}
_LOAD = (
    "Clients that ask for the digits without a pause, each answer compared with the one to the same image asked alone, "
    "and\nthe memory of the server (`python -m benchmarks.serve_load`, `benchmarks/results/serve_load-cpu.json`)."
)
_NOT_LOADED = (
    "Under load it has not been measured yet; `python -m benchmarks.serve_load` does that, with 1, 8 and 32 clients "
    "and\nover 100,000 requests.\n"
)
_NETWORKS = {"mnist-lenet100": "LeNet-100, 28×28", "digits": "the digits' network, 8×8"}


def speed_text(stored: Mapping[str, Any] | None) -> str:
    """From a stroke to the answer of 200 networks, and what the pad costs; nothing where it was not measured."""
    if stored is None:
        return ""
    figures = stored["figures"]
    rows = [
        [_NETWORKS[name], _WAYS[way], number(found["p50_ms"]), number(found["p99_ms"])]
        for name, ways in figures.items()
        if name in _NETWORKS
        for way, found in ways.items()
    ]
    table = markdown_table(["network", "from a stroke to the answer of 200 networks", "median, ms", "99 %, ms"], rows)
    return f"{_where(stored)}\n\n{table}{_pad_text(figures.get('pad', []))}"


def _pad_text(pads: list[Mapping[str, Any]]) -> str:
    words = [
        f"\nOf the {pad['images']:,} test images of `{pad['run']}` {100 * pad['drawn']:.2f} % are right through the "
        f"pad, and {100 * pad['plain']:.2f} % without it.\n"
        for pad in pads
    ]
    return "".join(words)


def load_text(stored: Mapping[str, Any] | None) -> str:
    """Requests a second, times, errors, changed answers, and memory; where it was not measured, it says so."""
    if stored is None:
        return _NOT_LOADED
    figures = stored["figures"]
    rows = [
        [
            str(load["clients"]),
            f"{load['requests']:,}",
            f"{load['requests_per_second']:.0f}",
            number(load["p50_ms"]),
            number(load["p99_ms"]),
            str(load["errors"]),
            str(load["changed"]),
        ]
        for load in figures["loads"]
    ]
    header = ["clients", "requests", "per second", "median, ms", "99 %, ms", "errors", "answers other than alone"]
    held = figures["memory"]
    first, settled, last = held["megabytes"][0], held["megabytes"][1], held["megabytes"][-1]
    return (
        f"{_LOAD}\n{_where(stored)}\n\n{markdown_table(header, rows)}\n"
        f"Over {held['requests']:,} further requests of {held['clients']} clients the process held {first:.0f} MB at "
        f"the start, {settled:.0f} after a twentieth of them, {last:.0f} at the end and {max(held['megabytes']):.0f} "
        f"at most, with {held['errors']} errors and {held['changed']} changed answers.\n"
    )


def _where(stored: Mapping[str, Any]) -> str:
    machine = stored["machine"]
    return f"On {machine['name']}, {machine['threads']} threads, torch {machine['torch']}:"
