"""The machine a benchmark ran on: what it is, and how fast it copies and multiplies, measured in the same run."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass

import torch

import tribayes as tb
from benchmarks.racing import plain_candidate, race
from tribayes.runs.environment import device_name

SECONDS = 1.0  # for the two rates


@dataclass(frozen=True)
class Machine:
    """Names, versions, settings and two measured rates."""

    kind: str  # "cpu", or the GPU's name in short: "h200"
    name: str
    threads: int
    python: str
    torch: str
    cuda: str | None
    tribayes: str
    cudnn_benchmark: bool
    copy_bytes_per_second: float  # read and written, of tensors that no cache holds
    flops_per_second: float  # of a float32 product; on a GPU with TF32, as its convolutions are allowed


def describe(device: torch.device, quick: bool = False) -> Machine:
    """Look around, and measure the rates."""
    return Machine(
        kind=kind_of(device),
        name=device_name(device),
        threads=torch.get_num_threads(),
        python=platform.python_version(),
        torch=torch.__version__,
        cuda=torch.version.cuda if device.type == "cuda" else None,
        tribayes=tb.__version__,
        cudnn_benchmark=torch.backends.cudnn.benchmark,
        copy_bytes_per_second=copy_rate(device, quick),
        flops_per_second=product_rate(device, quick),
    )


def kind_of(device: torch.device) -> str:
    """ "cpu", or a GPU's name fit for a file name, without its maker."""
    if device.type != "cuda":
        return device.type
    name = torch.cuda.get_device_name(device).lower().removeprefix("nvidia ")
    return re.sub(r"[^a-z0-9]+", "-", name).strip("-")


def copy_rate(device: torch.device, quick: bool = False) -> float:
    """Bytes per second, each counted when it is read and when it is written."""
    size = 2**20 if quick else 2**26
    source = torch.randn(size, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / _median(lambda: target.copy_(source), device, quick)


def product_rate(device: torch.device, quick: bool = False) -> float:
    """Multiplications and additions per second in a product of two square matrices."""
    side = 256 if quick else 8192 if device.type == "cuda" else 2048
    a, b = torch.randn(2, side, side, device=device)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if device.type == "cuda" else before)
    try:
        return 2 * side**3 / _median(lambda: a @ b, device, quick)
    finally:
        torch.set_float32_matmul_precision(before)


def _median(run: object, device: torch.device, quick: bool) -> float:
    timings = race([plain_candidate("rate", run)], device, SECONDS / (20 if quick else 2), base="rate")
    return timings[0].seconds[1]
