"""The processes that train or predict together: torch's default process group, or this process alone."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module

import torch
import torch.distributed
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tribayes._errors import refusal

_GONE = ("gloo", "nccl", "connection", "peer", "timed out", "timeout")  # in what torch says when a process is gone


class Lost(RuntimeError):
    """Another process of the group is gone, or did not answer in time.

    Example:
        >>> issubclass(Lost, RuntimeError)
        True
    """


@dataclass(frozen=True)
class Processes:
    """How many there are, and which of them this is; the first is 0, and the only one that writes.

    Example:
        >>> processes()
        Processes(rank=0, count=1)
        >>> processes().share(6)
        slice(0, 6, None)
    """

    rank: int
    count: int

    @property
    def first(self) -> bool:
        return self.rank == 0

    @property
    def alone(self) -> bool:
        return self.count == 1

    def share(self, size: int) -> slice:
        """This process's part of so many things, in their order; parts differ by at most one."""
        return slice(size * self.rank // self.count, size * (self.rank + 1) // self.count)

    def check_batch(self, batch_size: int, name: str = "batch_size") -> None:
        """Refuse a batch of which not every process gets as much: the mean of their means would not be its mean."""
        if batch_size % self.count:
            requirement = f"be a multiple of the {self.count} processes that share it"
            fewer = max(batch_size // self.count, 1) * self.count  # more there may not be, of a small table
            raise refusal(name, batch_size, requirement, f"choose e.g. {fewer}")

    def together(self, model: nn.Module) -> nn.Module:
        """The model, with gradients averaged over the processes; itself where there is only one."""
        return model if self.alone else DistributedDataParallel(model)

    def mean_(self, values: Tensor) -> Tensor:
        """The mean over processes, in place."""
        if not self.alone:
            torch.distributed.all_reduce(values)
            values /= self.count
        return values

    def largest(self, number: int) -> int:
        """The largest of a number of each process, known to all."""
        if self.alone:
            return number
        device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
        values = torch.tensor([number], device=device)
        torch.distributed.all_reduce(values, torch.distributed.ReduceOp.MAX)
        return int(values)

    def after_first(self, act: Callable[[], object]) -> None:
        """Let the first process act, and the others go on when it has; where it fails, no one does."""
        failure: Exception | None = None
        if self.first:
            try:
                act()
            except Exception as error:
                failure = error
        failed = self.largest(int(failure is not None))
        if failure is not None:
            raise failure
        if failed:
            raise Lost("the first process could not begin; it says why")

    def wait(self) -> None:
        """Until all have come here."""
        self.largest(0)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """While this lasts, what torch says of a process that is gone becomes `Lost`."""
        try:
            yield
        except RuntimeError as error:
            if self.alone or not any(word in str(error).lower() for word in _GONE):
                raise
            reason = str(error).splitlines()[0]
            raise Lost(f"process {self.rank} of {self.count} waited in vain for another one ({reason})") from error


def processes() -> Processes:
    """Those of torch's default process group; without one, this process alone.

    Example:
        >>> processes().alone
        True
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return Processes(0, 1)
    return Processes(torch.distributed.get_rank(), torch.distributed.get_world_size())


@contextmanager
def joined_by_torchrun(on_gpu: bool) -> Iterator[Processes]:
    """While this lasts, the processes that torchrun has started are a group: by gloo on a CPU, by NCCL on GPUs.

    Without torchrun, or where a group is there already, nothing is changed.

    Example:
        >>> with joined_by_torchrun(on_gpu=False) as group:
        ...     group
        Processes(rank=0, count=1)
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        yield processes()
        return
    if not torch.distributed.is_torchelastic_launched() or int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Processes(0, 1)
        return
    if on_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # What torch imports later keeps the group of that moment in its functions' defaults, and so for ever: its threads
    # would meet the end of the interpreter, which aborts (pytorch/pytorch#190489). Imported before, it keeps none.
    import_module("torch.distributed.nn")
    torch.distributed.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo")
    try:
        yield processes()
    finally:
        torch.distributed.destroy_process_group()
        gc.collect()  # DistributedDataParallel is in cycles, and holds the group
