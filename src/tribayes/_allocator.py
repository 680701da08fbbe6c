"""Memory that one step frees stays for the next one.

A step on a CPU frees at its end what the next one asks for at once. In between glibc gives most of it back to the
system, and every page that has to be fetched again costs a fault: thousands per step, as `python -m
benchmarks.allocator` shows.
"""

from __future__ import annotations

import ctypes
import platform

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt's numbers for them, in malloc.h
_KEPT = 1 << 30  # bytes of free memory that a process may sit on
_LARGEST_BLOCK = 1 << 25  # of those that count for that; as much as every glibc allows


def keep_freed_memory() -> None:
    """Let this process keep memory that it frees, up to a gigabyte, for its next training steps on a CPU.

    Say it once, at the beginning of a program of your own; the `tribayes` command does. Where glibc would
    give it back after every step, steps of LeNet and CIFAR10_full take a tenth to a quarter less, those of a plain
    network, too. Only glibc can be told, so elsewhere than on most Linux systems nothing changes.

    Example:
        >>> keep_freed_memory()
    """
    if has_glibc():
        set_thresholds(_LARGEST_BLOCK, _KEPT)


def has_glibc() -> bool:
    return platform.libc_ver()[0] == "glibc"


def set_thresholds(largest_block: int, kept: int) -> None:
    """Give back blocks larger than `largest_block` bytes at once, and the rest where more than `kept` is free."""
    library = ctypes.CDLL(None)
    library.mallopt(_MMAP_THRESHOLD, largest_block)
    library.mallopt(_TRIM_THRESHOLD, kept)
