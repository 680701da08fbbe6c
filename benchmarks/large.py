"""What a training step of a large transformer costs, in time and in memory, beside the plain network's; also under DDP.

    python -m benchmarks.large [--device cpu|cuda] [--network gpt-2|vit-b-16] [--seconds S] [--quick]

A step is forward in bf16 by autocast, loss with its divergence, backward and AdamW (fused). Ours is
`tribayes.TrainingStep` as a user calls it. On a GPU both are CUDA graphs, or neither is where one cannot be; the two
under DistributedDataParallel (one process) never are. Peaks of memory are of steps without a graph, each alone.
On a CPU they are left out unless they are named: a step is long there. --seconds bounds the race of each
network. A network is kept as soon as it has run. --quick runs miniatures.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
import torch.distributed
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import tribayes as tb
from benchmarks import command
from benchmarks.isolation import isolated
from benchmarks.large_networks import MINIATURES, TASKS, LargeTask
from benchmarks.learners import DETERMINISTIC, LEARNING_RATE, OURS
from benchmarks.racing import STEP_TURN_SECONDS, Candidate, CaptureFailed, candidate, plain_candidate, race
from tribayes import _graphs
from tribayes._text import format_table

SECONDS = 15.0
TARGETS = {"time": 1.05, "memory": 1.1}  # × deterministic
PARALLEL = {DETERMINISTIC: "deterministic, DDP", OURS: "ours, DDP"}


class Step(ABC):
    """One arm: a network, its optimizer and its step."""

    def __init__(self, task: LargeTask, device: torch.device, ddp: bool = False) -> None:
        self.model = self.converted(task.network()).to(device)
        options = {"lr": LEARNING_RATE, "fused": True, "capturable": device.type == "cuda"}
        self.optimizer = torch.optim.AdamW(self.parameters(), **options)
        self.called = DistributedDataParallel(self.model) if ddp else self.model
        self._device = device

    def converted(self, network: nn.Module) -> nn.Module:
        return network

    def parameters(self) -> Any:
        return self.model.parameters()

    def __call__(self, inputs: Tensor, targets: Tensor) -> Tensor:
        with torch.autocast(self._device.type, torch.bfloat16):
            return self.step(inputs, targets)

    @abstractmethod
    def step(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Forward, backward and update; the loss."""


class Plain(Step):
    """The network as it is, by the loop that everybody writes."""

    def step(self, inputs: Tensor, targets: Tensor) -> Tensor:
        loss = F.cross_entropy(self.called(inputs), targets)
        self.optimizer.zero_grad()
        with torch.autocast(self._device.type, enabled=False):
            loss.backward()
            self.optimizer.step()
        return loss.detach()


class Ours(Step):
    """`tribayes.to_bayesian` and `tribayes.TrainingStep`, as README writes them."""

    def __init__(self, task: LargeTask, device: torch.device, ddp: bool = False, graph: bool = False) -> None:
        super().__init__(task, device, ddp)
        elbo = tb.ELBO(tb.Categorical(), data_size=task.data_size)
        self.public = tb.TrainingStep(self.called, elbo, self.optimizer, capture="auto" if graph else False)

    def converted(self, network: nn.Module) -> nn.Module:
        return tb.to_bayesian(network, family="tridiagonal")  # which costs more than the default

    def parameters(self) -> Any:
        return tb.parameter_groups(self.model, lr=LEARNING_RATE)

    def step(self, inputs: Tensor, targets: Tensor) -> Tensor:
        return self.public(inputs, targets).loss


ARMS: dict[str, type[Step]] = {DETERMINISTIC: Plain, OURS: Ours}


def main(words: Sequence[str] | None = None) -> None:
    parser = command.parser(__doc__)
    parser.add_argument("--network", action="append", choices=[task.name for task in TASKS], help="only this one")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of the race, for each network")
    arguments = command.parsed(parser, words)
    on_gpu = arguments.device.type == "cuda"
    rows = {row["name"]: row for row in command.kept("large", arguments).get("networks", [])}
    named = arguments.network or ([task.name for task in TASKS] if arguments.quick or on_gpu else [])
    if not named:
        print("left out on a CPU unless they are named: --network gpt-2\n")
    for task in [one for one in (MINIATURES if arguments.quick else TASKS) if one.name in named]:
        if task.needs and importlib.util.find_spec(task.needs) is None:
            print(f"{task.title}: not run, {task.needs} is not installed\n")
            continue
        rows[task.name] = isolated(partial(_row, arguments, task.name), arguments.device)
        print(_table(rows[task.name]), "\n", flush=True)
        command.keep("large", {"networks": [rows[one.name] for one in TASKS if one.name in rows]}, arguments)


def _row(arguments: argparse.Namespace, name: str, eager: Mapping[str, str]) -> dict[str, Any]:
    """One network: the peaks of memory one after the other, then all arms in one race."""
    command.settle(arguments)
    device, tasks = arguments.device, MINIATURES if arguments.quick else TASKS
    task = next(one for one in tasks if one.name == name)
    batch = task.examples_on(device)
    peaks = {name: _peak(arm, task, device, batch) for name, arm in ARMS.items()}
    with tempfile.TemporaryDirectory() as folder:
        backend = "nccl" if device.type == "cuda" else "gloo"
        torch.distributed.init_process_group(backend, f"file://{folder}/meeting", rank=0, world_size=1)
        try:
            field, weights = _field(task, device, batch, eager)
            seconds = arguments.seconds / (100 if arguments.quick else 1)
            timings = [asdict(one) for one in race(field, device, seconds, DETERMINISTIC, STEP_TURN_SECONDS)]
            # beside the plain network under DDP; medians of turns that were taken in the same rounds
            medians = {one["name"]: one["seconds"][1] for one in timings}
            parallel = medians[PARALLEL[OURS]] / medians[PARALLEL[DETERMINISTIC]]
        finally:
            torch.distributed.destroy_process_group()
    return {
        "name": task.name,
        "title": task.title,
        "batch": task.batch,
        "weights": sum(value.numel() for value in task.network().parameters()),
        "random_weights": weights,
        "timings": timings,
        "ddp_ratio": parallel,
        "peaks": peaks,
    }


def _field(
    task: LargeTask, device: torch.device, batch: tuple[Tensor, Tensor], eager: Mapping[str, str]
) -> tuple[list[Candidate], int]:
    """The four arms, and the number of weights that ours draws. Ours comes first: it says whether there are graphs."""
    ours = Ours(task, device, graph=not eager)
    reason = _recorded(ours, batch, device) if not eager else next(iter(eager.values()))
    how = "graph" if ours.public.captured else f"eager{reason and ': '}{reason}"
    field = [
        candidate(DETERMINISTIC, Plain(task, device), device, {DETERMINISTIC: reason} if reason else None, batch),
        Candidate(OURS, _warm(ours, batch), how),
        *(plain_candidate(name, _warm(ARMS[arm](task, device, ddp=True), batch)) for arm, name in PARALLEL.items()),
    ]
    return field, sum(mean.numel() for _, mean in ours.model.means())


def _recorded(ours: Ours, batch: tuple[Tensor, Tensor], device: torch.device) -> str:
    """Run our step until it has recorded itself; the reason if it does not, and no reason on a CPU."""
    try:
        _warm(ours, batch)
    except _graphs.CaptureFailed as error:
        raise CaptureFailed(OURS, str(error)) from error
    return "" if ours.public.captured or device.type != "cuda" else "ours did not record itself"


def _warm(step: Step, batch: tuple[Tensor, Tensor]) -> Callable[[], Tensor]:
    for _ in range(5):
        loss = step(*batch)
    if not torch.isfinite(loss):
        raise SystemExit(f"a loss is {float(loss)}; nothing was timed")
    return partial(step, *batch)


def _peak(arm: type[Step], task: LargeTask, device: torch.device, batch: tuple[Tensor, Tensor]) -> int | None:
    """Bytes that torch's allocator had handed out at most during a step, which it only tells for a GPU."""
    step = arm(task, device)
    for _ in range(2):
        step(*batch)
    if device.type != "cuda":
        return None
    step.optimizer.zero_grad()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    step(*batch)
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated()
    del step
    gc.collect()
    torch.cuda.empty_cache()
    return peak


def _table(row: Mapping[str, Any]) -> str:
    title = f"{row['title']}, batch {row['batch']}, {row['random_weights']:,} of {row['weights']:,} weights random"
    lines = [[one["name"], 1e3 * one["seconds"][1], *_ratios(one), one["turns"], one["how"]] for one in row["timings"]]
    table = format_table(["step", "ms", "× deterministic", "quartiles", "turns", "how"], lines)
    said = [f"under DDP: {row['ddp_ratio']:.3f} × the plain network under DDP"]
    first, second = row["peaks"][DETERMINISTIC], row["peaks"][OURS]
    if first:
        said.append(
            f"peak of memory: {second / 2**20:,.0f} MiB, {second / first:.3f} × the plain {first / 2**20:,.0f} "
            f"(aimed at: {TARGETS['memory']})"
        )
    return f"{title} (aimed at: {TARGETS['time']})\n\n{table}\n\n" + "\n".join(said)


def _ratios(one: Mapping[str, Any]) -> tuple[float, str]:
    lower, middle, upper = one["ratio"]
    return middle, f"{lower:.3f}-{upper:.3f}"


if __name__ == "__main__":
    main()
