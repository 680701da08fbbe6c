"""Freed memory comes back without page faults, in a process that asks for it."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PAGES = 4096  # of 4 KiB in each of three blocks
FAULTS = f"""
import ctypes, resource, sys
from tribayes._allocator import keep_freed_memory, set_thresholds

library, size = ctypes.CDLL(None), {PAGES} * 4096
library.malloc.restype = ctypes.c_void_p

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if "keep" in sys.argv:
    keep_freed_memory()
else:
    set_thresholds(2 * size, size)
for _ in range(5):
    before = faults()
    blocks = [ctypes.c_void_p(library.malloc(size)) for _ in range(3)]
    for block in blocks:
        library.memset(block, 1, size)
    for block in reversed(blocks):
        library.free(block)
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told to keep freed memory")
def test_freed_memory_is_kept_where_it_is_asked_for() -> None:
    given_back, kept = (
        int(subprocess.run([sys.executable, "-c", FAULTS, word], capture_output=True, text=True, check=True).stdout)
        for word in ("give", "keep")
    )
    assert given_back > 2 * PAGES
    assert kept < 0.01 * PAGES
