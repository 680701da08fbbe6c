"""Checks that several processes make together: one start of them for many checks, since each imports torch anew."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed
from torch.multiprocessing import spawn

from tests.patience import PATIENCE

Check = Callable[[int, Path], Any]  # (rank, a folder for all) → what the process found

needs_gloo = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="torch was built without gloo, by which processes on a CPU talk",
)


class Found(dict[str, list[Any]]):
    """What each process found in each check, in the order of ranks."""

    def __getitem__(self, check: str) -> list[Any]:
        parts = super().__getitem__(check)
        failures = [part for part in parts if isinstance(part, Failure)]
        assert not failures, failures[0].traceback
        return parts


@dataclass
class Failure:
    traceback: str


def found_by(processes: int, checks: Mapping[str, Check], folder: Path, last: Check | None = None) -> Found:
    """Make the checks; `last` is one after which only the first process need be there."""
    spawn(_worker, (processes, dict(checks), last, str(folder)), nprocs=processes)
    parts = [torch.load(folder / f"found-{rank}.pt", weights_only=False) for rank in range(processes)]
    found = Found({name: [part[name] for part in parts] for name in checks})
    if last is not None:
        found["last"] = [torch.load(folder / "last.pt", weights_only=False)]
    return found


def _worker(rank: int, processes: int, checks: Mapping[str, Check], last: Check | None, folder: str) -> None:
    torch.set_num_threads(1)
    join(rank, processes, folder)
    found = {}
    for name, check in checks.items():
        found[name] = _made(check, rank, Path(folder))
    torch.save(found, Path(folder) / f"found-{rank}.pt")
    torch.distributed.barrier()
    if last is not None:
        torch.save(_made(last, rank, Path(folder)), Path(folder) / "last.pt")
    os._exit(0)  # gloo's threads may abort an interpreter on its way out (pytorch/pytorch#179291)


def _made(check: Check, rank: int, folder: Path) -> Any:
    try:
        return check(rank, folder)
    except Exception:
        return Failure(traceback.format_exc())


def join(rank: int, processes: int, folder: str) -> None:
    """Make this process one of a group that meets in a folder."""
    place, patience = f"file://{folder}/meeting", timedelta(seconds=PATIENCE)
    torch.distributed.init_process_group("gloo", place, rank=rank, world_size=processes, timeout=patience)
