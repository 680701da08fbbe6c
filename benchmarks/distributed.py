"""What a training step costs under DistributedDataParallel, beside the plain network's under it.

    python -m benchmarks.distributed [--device cpu|cuda] [--processes N] [--network NAME ...] [--quick]

N processes on this machine (2 on a CPU, else one for each GPU) talk by gloo, or by NCCL, and share the threads and the
batches of `benchmarks.step`. All take the same turns at the same time, and the first holds the watch. A step is
forward, loss with its divergence, backward with averaged gradients, and SGD with momentum, never as a CUDA graph. Ours
draws other weights in each process, or the same in all (`same_draw=True`).
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import Tensor
from torch.multiprocessing import spawn
from torch.nn.parallel import DistributedDataParallel

import tribayes as tb
from benchmarks import command
from benchmarks.learners import DETERMINISTIC, OURS, Deterministic, Learner, Ours
from benchmarks.networks import TASKS, Task
from benchmarks.racing import STEP_TURN_SECONDS, WARM_UP, plain_candidate, race
from benchmarks.step import ON_A_CPU, QUICK_BATCH
from tribayes._text import format_table
from tribayes.distributed import Processes, processes

SAME = f"{OURS}, same draw"
SECONDS = 60.0  # a network


class ParallelPlain(Deterministic):
    """The plain network, whole in every process."""

    def __init__(self, task: Task, device: torch.device) -> None:
        super().__init__(task, device)
        self._called = DistributedDataParallel(self.model)

    def outputs(self, images: Tensor) -> Tensor:
        return self._called(images)


class ParallelOurs(Ours):
    """Ours, as docs/distributed.md writes it."""

    same_draw = False

    def __init__(self, task: Task, device: torch.device) -> None:
        super().__init__(task, device)
        self._parallel = tb.TrainingStep(
            self.called, self.elbo, self.optimizer, generator=0, same_draw=self.same_draw, capture=False
        )

    def as_called(self) -> DistributedDataParallel:
        return DistributedDataParallel(self.model)

    def step(self, images: Tensor, labels: Tensor) -> Tensor:
        with self.task.precision(self.device):
            return self._parallel(images, labels).loss


class SameDraw(ParallelOurs):
    """Ours with one draw for all processes."""

    same_draw = True


ARMS: dict[str, type[Learner]] = {DETERMINISTIC: ParallelPlain, OURS: ParallelOurs, SAME: SameDraw}


def main(words: Sequence[str] | None = None) -> None:
    parser = command.parser(__doc__)
    parser.add_argument("--network", action="append", choices=TASKS, help="only this one; may be repeated")
    parser.add_argument("--processes", type=int, default=None, help="default: 2 on a CPU, else one for each GPU")
    arguments = command.parsed(parser, words)
    on_gpus = arguments.device.type == "cuda"
    count = arguments.processes or (torch.cuda.device_count() if on_gpus else 2)
    arguments.threads = max(1, arguments.threads // count)  # of each process, as the file says
    command.settle(arguments)
    names = arguments.network or (tuple(TASKS) if on_gpus else ON_A_CPU)
    with tempfile.TemporaryDirectory() as folder:
        spawn(_process, (count, arguments, names, folder), nprocs=count)
        rows = json.loads((Path(folder) / "rows.json").read_text())
    for row in rows:
        print(_table(row, count), "\n")
    command.keep("distributed", {"processes": count, "networks": rows}, arguments)


def _process(rank: int, count: int, arguments: argparse.Namespace, names: Sequence[str], folder: str) -> None:
    """One of the processes: it takes part in all races; the first writes what was found."""
    on_gpus = arguments.device.type == "cuda"
    if on_gpus:
        arguments.device = torch.device("cuda", rank)
        torch.cuda.set_device(rank)
    command.settle(arguments)
    backend = "cpu:gloo,cuda:nccl" if on_gpus else "gloo"
    torch.distributed.init_process_group(backend, f"file://{folder}/meeting", rank=rank, world_size=count)
    rows = [_row(arguments, name, processes()) for name in names]
    if rank == 0:
        (Path(folder) / "rows.json").write_text(json.dumps(rows))
    torch.distributed.barrier()
    os._exit(0)  # gloo's threads may abort an interpreter on its way out (pytorch/pytorch#179291)


def _row(arguments: argparse.Namespace, name: str, group: Processes) -> dict[str, Any]:
    """One network, all arms, in turns that the processes take together."""
    device, task = arguments.device, TASKS[name]
    if arguments.quick:
        task = task.smaller(QUICK_BATCH * group.count)
    group.check_batch(task.batch)
    share = group.share(task.batch)
    images, labels = (part[share] for part in task.examples(device))
    learners = {arm: make(task, device) for arm, make in ARMS.items()}
    field = [plain_candidate(arm, _warm(learner, images, labels)) for arm, learner in learners.items()]
    seconds = SECONDS / (600 if arguments.quick else 1)
    timings = race(field, device, seconds, DETERMINISTIC, STEP_TURN_SECONDS, agree=group.largest)
    return {
        "name": task.name,
        "title": task.title,
        "batch": task.batch,
        "random_weights": learners[OURS].random_weights(),
        "timings": [asdict(one) for one in timings],
    }


def _warm(learner: Learner, images: Tensor, labels: Tensor) -> Callable[[], Tensor]:
    """The step, after a few; an error where its loss is not finite."""
    for _ in range(WARM_UP):
        loss = learner.step(images, labels)
    if not torch.isfinite(loss):
        raise SystemExit(f"a loss is {float(loss)}; nothing was timed")
    return partial(learner.step, images, labels)


def _table(row: Mapping[str, Any], count: int) -> str:
    rows = [[one["name"], 1e3 * one["seconds"][1], *one["ratio"]] for one in row["timings"]]
    title = f"{row['title']}, batch {row['batch']} by {count} processes, {row['random_weights']:,} random weights"
    header = ["under DDP", "ms", "lower quartile, × deterministic", "median", "upper quartile"]
    return f"{title}\n\n{format_table(header, rows)}"


if __name__ == "__main__":
    main()
