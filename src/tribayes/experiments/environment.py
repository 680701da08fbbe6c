"""Where and with what a result was computed."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

import torch

import tribayes
from tribayes._errors import refusal


def choose_device(word: str) -> torch.device:
    """ "auto" is the GPU where there is one; else as named."""
    if word not in ("auto", "cpu", "cuda"):
        raise refusal("--device", word, 'be "auto", "cpu" or "cuda"', "correct the word")
    if word == "cuda" and not torch.cuda.is_available():
        raise refusal(
            "--device", word, "be there, but torch sees no GPU", "use --device cpu, or install torch for CUDA"
        )
    return torch.device("cuda" if word != "cpu" and torch.cuda.is_available() else "cpu")


def compute_repeatably() -> None:
    """Choose algorithms that give the same bits every time. Call it before the GPU is first used."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


def use_threads(count: int | None) -> None:
    """So many threads on the CPU; None leaves torch's choice."""
    if count is not None:
        torch.set_num_threads(count)


def environment(device: torch.device) -> dict[str, str | int | None]:
    """Versions, machine and device, as plain values."""
    return {
        "tribayes": tribayes.__version__,
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
