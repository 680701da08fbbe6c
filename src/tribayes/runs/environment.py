"""Where and with what a result is computed, and how to compute the same bits again."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import torch

from tribayes._errors import refusal


def choose_device(word: str) -> torch.device:
    """ "auto" is the GPU where there is one; else as named."""
    if word not in ("auto", "cpu", "cuda"):
        raise refusal("--device", word, 'be "auto", "cpu" or "cuda"', "correct the word")
    if word == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    check_device(torch.device(word))
    return torch.device(word)


def check_device(device: torch.device) -> None:
    """Refuse what runs know nothing of, and a GPU that is not there."""
    if device.type not in ("cpu", "cuda"):
        raise refusal("device", str(device), "be a CPU or a CUDA device", 'pass "cpu" or "cuda"')
    if device.type == "cuda" and not torch.cuda.is_available():
        remedy = "use --device cpu, or install torch for CUDA"
        raise refusal("--device", str(device), "be there, but torch sees no GPU", remedy)


def compute_repeatably() -> None:
    """Choose algorithms that give the same bits every time. Call it before the GPU is first used."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


@contextmanager
def repeatable(threads: int) -> Iterator[None]:
    """The same for a while, with so many threads of the CPU, on whose number sums depend."""
    cudnn = torch.backends.cudnn
    before = torch.get_num_threads(), cudnn.deterministic, cudnn.benchmark
    compute_repeatably()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        cudnn.deterministic, cudnn.benchmark = before[1:]


def use_threads(count: int | None) -> None:
    """So many threads on the CPU; None leaves torch's choice."""
    if count is not None:
        torch.set_num_threads(count)


def environment(device: torch.device) -> dict[str, str | int | None]:
    """Versions, machine and device, as plain values."""
    return {
        "tribayes": import_module("tribayes").__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "platform": platform.platform(),
        "device": device_name(device),
        "tf32": torch.backends.cudnn.allow_tf32,  # whether a GPU's convolutions may round their factors to ten bits
        "threads": torch.get_num_threads(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def device_name(device: torch.device) -> str:
    """What the device is called by its maker."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()


def _processor() -> str:
    listed = Path("/proc/cpuinfo")  # Linux; platform.processor() is empty there
    lines = listed.read_text().splitlines() if listed.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
