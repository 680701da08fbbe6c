"""Trained networks on disk, so that the look at the test rows asks those that were judged on held-out ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import nn

from benchmarks.defaults.plan import Job
from tribayes._files import make_folder, put_in_place


class Keep:
    """A folder of networks, which git ignores; without one nothing is kept. Missing ones are trained again."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def __call__(self, job: Job, module: nn.Module, train: Callable[[], None]) -> None:
        """Give a module what was trained before, or train it and keep that."""
        from safetensors.torch import load_file, save_file

        if self.folder is None:
            train()
            return
        path = self.folder / f"{name_of(job)}.safetensors"
        if path.is_file():
            module.load_state_dict(load_file(path))
            return
        train()
        make_folder(self.folder)
        part = path.with_suffix(".part")
        save_file({name: value.contiguous() for name, value in module.state_dict().items()}, part)
        put_in_place(part, path)


def name_of(job: Job) -> str:
    """What tells a job from all others.

    >>> from benchmarks.defaults.plan import DIAGONAL, TASKS
    >>> name_of(Job(TASKS["digits-mlp"], DIAGONAL, (2,)))
    'digits-mlp-relative-diagonal-0.1-2'
    """
    seeds = f"{job.seeds[0]}to{job.seeds[-1]}" if len(job.seeds) > 1 else str(job.seeds[0])
    return f"{job.task.name}-{job.arm.prior}-{job.arm.family}-{job.arm.share:g}-{seeds}"
