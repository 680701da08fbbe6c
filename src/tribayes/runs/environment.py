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
        word = "cuda" if torch.cuda.is_available() else "cpu"
    return check_device(torch.device(word))


def check_device(device: torch.device) -> torch.device:
    """The device, unless runs know nothing of its kind, or it is a GPU that is not there."""
    if device.type not in ("cpu", "cuda"):
        raise refusal("device", str(device), "be a CPU or a CUDA device", 'pass "cpu" or "cuda"')
    if device.type == "cuda" and not torch.cuda.is_available():
        remedy = "use --device cpu, or install torch for CUDA"
        raise refusal("--device", str(device), "be there, but torch sees no GPU", remedy)
    return device


def compute_repeatably(threads: int | None = None) -> None:
    """Choose algorithms that give the same bits every time. Call it before the GPU is first used.

    Sums on a CPU depend on the number of threads, too; None leaves torch's choice.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    if threads is not None:
        torch.set_num_threads(threads)


@contextmanager
def repeatable(threads: int) -> Iterator[None]:
    """The same for a while."""
    cudnn = torch.backends.cudnn
    before = torch.get_num_threads(), cudnn.deterministic, cudnn.benchmark
    compute_repeatably(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        cudnn.deterministic, cudnn.benchmark = before[1:]


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
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    listed = Path("/proc/cpuinfo")  # Linux; platform.processor() is empty there
    lines = listed.read_text().splitlines() if listed.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
