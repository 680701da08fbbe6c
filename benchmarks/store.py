"""Result files: one per benchmark and kind of machine, written as a whole or not at all."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

import tribayes as tb
from benchmarks.machine import Machine
from tribayes._files import store

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
DIGITS = 5  # kept of a measured number

Stored = dict[str, Any]  # {"benchmark", "quick", "machine", "figures"}


def save(benchmark: str, machine: Machine, figures: Mapping[str, Any], folder: Path, quick: bool) -> Path:
    """Write benchmark-kind.json into the folder."""
    content = {"benchmark": benchmark, "quick": quick, "machine": asdict(machine), "figures": figures}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{benchmark}-{machine.kind}.json"
    store(path, (json.dumps(rounded(content), indent=1, ensure_ascii=False) + "\n").encode())
    return path


def stored(benchmark: str, folder: Path = RESULTS) -> Iterator[Stored]:
    """The files of a benchmark, by kind of machine; GPUs before the CPU."""
    paths = sorted(folder.glob(f"{benchmark}-*.json"), key=lambda path: (path.stem.endswith("-cpu"), path.name))
    for path in paths:
        yield json.loads(path.read_text())


def made_with() -> dict[str, str]:
    """The versions that decide what a study finds."""
    return {"tribayes": tb.__version__, "torch": torch.__version__, "python": platform.python_version()}


def rounded(value: Any) -> Any:
    """Every real number of nested figures to as many digits as are kept.

    >>> rounded({"seconds": [0.123456789, 3]})
    {'seconds': [0.12346, 3]}
    """
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [rounded(item) for item in value]
    return value
