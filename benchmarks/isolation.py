"""Work on a GPU in a process of its own, begun anew where a capture failed.

A failed capture leaves torch's generator and allocator in a state that nothing measured after it could be trusted in.
So the work is done in a fresh process; when a candidate cannot be captured, in another one, with that candidate eager.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

import torch

from benchmarks.racing import CaptureFailed

Result = TypeVar("Result")


def isolated(work: Callable[[Mapping[str, str]], Result], device: torch.device) -> Result:
    """The result of `work(eager)`, where eager names who cannot be captured, and why. On a CPU nothing is captured."""
    if device.type != "cuda":
        return work({})
    eager: dict[str, str] = {}
    while True:
        try:
            return _in_fresh_process(work, eager)
        except CaptureFailed as failure:
            if failure.name in eager:
                raise
            eager[failure.name] = failure.reason


def _in_fresh_process(work: Callable[[Mapping[str, str]], Result], eager: Mapping[str, str]) -> Result:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, eager).result()
