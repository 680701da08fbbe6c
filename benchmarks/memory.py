"""What a contender keeps and what a training step needs at its peak, beside the plain network.

    python -m benchmarks.memory [--device cpu|cuda] [--network NAME ...] [--quick]

Kept: parameters and the optimizer's state, and with them the buffers. Peak: what torch's allocator had handed out at
most during an eager step, which it only tells for a GPU.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks import command
from benchmarks.contenders import NAMES, contender
from benchmarks.isolation import isolated
from benchmarks.learners import OURS, Learner
from benchmarks.networks import TASKS, Task
from benchmarks.racing import Absence
from tribayes._text import format_table

QUICK = ("lenet-100",)
SMALL_BATCH, SMALL_SIDE = 4, 64  # enough for a step that makes the optimizer's state


def main(words: Sequence[str] | None = None) -> None:
    parser = command.parser(__doc__)
    parser.add_argument("--network", action="append", choices=TASKS, help="only this one; may be repeated")
    arguments = command.parsed(parser, words)
    rows = []
    for name in arguments.network or (QUICK if arguments.quick else tuple(TASKS)):
        rows.append(isolated(partial(_row, arguments, name), arguments.device))
        print(_table(rows[-1]), "\n")
    command.keep("memory", {"networks": rows}, arguments)


def _row(arguments: argparse.Namespace, name: str, eager: Mapping[str, str]) -> dict[str, Any]:
    """One network, one contender after the other, each alone."""
    del eager  # nothing is captured here
    command.settle(arguments)
    whole = arguments.device.type == "cuda" and not arguments.quick
    task = TASKS[name] if whole else _small(TASKS[name])
    contents = [_content(one, task, arguments) for one in NAMES]
    return {
        "name": task.name,
        "title": task.title,
        "batch": task.batch,
        "half": task.half,
        "contenders": [one for one in contents if "kept" in one],
        "absent": [one for one in contents if "kept" not in one],
    }


def _content(name: str, task: Task, arguments: argparse.Namespace) -> dict[str, Any]:
    learner = contender(name, task, arguments.device, arguments.peers)
    if isinstance(learner, Absence):
        return {"name": name, "reason": learner.reason}
    batch = task.examples(arguments.device)
    for _ in range(2):
        learner.step(*batch)
    peak = _peak(learner, batch) if arguments.device.type == "cuda" else None
    content = {"name": name, **_kept(learner), "peak": peak, "note": learner.note}
    if name == OURS:
        content["draw"] = learner.random_weights() * (2 if task.half else 4)
    del learner
    gc.collect()
    return content


def _peak(learner: Learner, batch: tuple[Tensor, Tensor]) -> int:
    learner.optimizer.zero_grad()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    learner.step(*batch)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def _kept(learner: Learner) -> dict[str, int]:
    """Bytes of parameters and optimizer state, and those with buffers; memory that is shared counts once."""
    state = [value for entry in learner.optimizer.state.values() if isinstance(entry, dict) for value in entry.values()]
    state += [value for group in learner.optimizer.param_groups for value in group.values()]
    learned = [*learner.model.parameters(), *(value for value in state if isinstance(value, Tensor))]
    return {"kept": _bytes(learned), "kept_with_buffers": _bytes([*learned, *learner.model.buffers()])}


def _bytes(tensors: Iterable[Tensor]) -> int:
    places = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(places.values())


def _small(task: Task) -> Task:
    """The same network on a few small images; networks for smaller ones keep theirs."""
    channels, *sides = task.image
    image = (channels, *(min(side, SMALL_SIDE) for side in sides))
    return replace(task, batch=SMALL_BATCH, image=image, half=False)


def _table(row: Mapping[str, Any]) -> str:
    first = row["contenders"][0]
    lines = {one["name"]: _line(one, first) for one in row["contenders"]}
    lines |= {one["name"]: [None, None, None, None, one["reason"]] for one in row["absent"]}
    header = ["contender", "kept MiB", "× deterministic", "peak MiB", "× deterministic", ""]
    return f"{row['title']}, batch {row['batch']}\n\n" + format_table(header, [[n, *lines[n]] for n in NAMES])


def _line(one: Mapping[str, Any], first: Mapping[str, Any]) -> list[object]:
    peak = [one["peak"] / 2**20, one["peak"] / first["peak"]] if one["peak"] else [None, None]
    draw = f"of it the draw {one['draw'] / 2**20:.1f}" if one["peak"] and "draw" in one else one["note"]
    return [one["kept"] / 2**20, one["kept"] / first["kept"], *peak, draw]


if __name__ == "__main__":
    main()
