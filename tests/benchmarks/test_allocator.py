"""The benchmark of the allocator runs."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told to keep freed memory")
def test_its_benchmark_runs() -> None:
    command = [sys.executable, "-m", "benchmarks.allocator", "--quick", "--threads", "1"]
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [line.split()[:2] for line in out.splitlines()[2:]] == [
        [name, way] for name in ("mnist-lenet100-frequentist", "mnist-lenet100", "cifar10") for way in ("usual", "kept")
    ]
