"""What a training step costs: the plain network, ours, and each peer, in one race per network.

    python -m benchmarks.step [--device cpu|cuda] [--network NAME ...] [--compiled] [--quick]

A step is forward, loss with its divergence, backward and SGD with momentum (one fused update), on a batch that lies on
the device; on a GPU a CUDA graph for everyone, into which the batch is copied. Ours is `tribayes.TrainingStep` as a
user calls it, guards included. A ResNet's step takes half a minute on a CPU of two cores, so there they are left out
unless they are named. --compiled adds the plain network and ours by torch.compile, which takes its time before. Each
network is kept as soon as it has run; those that are not run keep the row that the same machine left before.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks import command
from benchmarks.checks import check_draw
from benchmarks.contenders import NAMES, contenders, impossible
from benchmarks.isolation import isolated
from benchmarks.learners import COMPILED, DETERMINISTIC, OURS, OWN, Learner, Ours
from benchmarks.networks import TASKS, Task
from benchmarks.racing import STEP_TURN_SECONDS, Absence, Candidate, candidate, race, self_recording
from tribayes._text import format_table

ON_A_CPU = ("lenet-100", "cifar10-full")
SECONDS_A_NETWORK = {"cuda": 15.0, "cpu": 90.0}  # a CPU shared with others needs more turns
QUICK_BATCH = 4


def main(words: Sequence[str] | None = None) -> None:
    parser = command.parser(__doc__)
    parser.add_argument("--network", action="append", choices=TASKS, help="only this one; may be repeated")
    parser.add_argument("--compiled", action="store_true", help="also by torch.compile")
    arguments = command.parsed(parser, words)
    names = arguments.network or (ON_A_CPU if arguments.device.type == "cpu" else tuple(TASKS))
    check_draw(arguments.device)
    rows = {row["name"]: row for row in command.kept("step", arguments).get("networks", [])}
    for name in names:
        rows[name] = isolated(partial(_row, arguments, name), arguments.device)
        print(_table(rows[name]), "\n")
        command.keep("step", {"networks": [rows[task] for task in TASKS if task in rows]}, arguments)


def _row(arguments: argparse.Namespace, name: str, eager: Mapping[str, str]) -> dict[str, Any]:
    """One network, all contenders."""
    command.settle(arguments)
    device, task = arguments.device, TASKS[name]
    if arguments.quick:
        task = task.smaller(QUICK_BATCH)
    learners, absent = _field(task, device, arguments)
    batch = task.examples(device)
    field = _prepared(learners, batch, device, eager, absent)
    seconds = SECONDS_A_NETWORK[device.type] / (1200 if arguments.quick else 1)
    timings = race(field, device, seconds, DETERMINISTIC, STEP_TURN_SECONDS)
    plain = learners[DETERMINISTIC].model
    return {
        "name": task.name,
        "title": task.title,
        "batch": task.batch,
        "half": task.half,
        "weights": sum(value.numel() for value in plain.parameters()),
        "random_weights": learners[OURS].random_weights(),
        "timings": [asdict(one) for one in timings],
        "notes": {name: one.note for name, one in learners.items() if one.note},
        "absent": [asdict(one) for one in absent],
    }


def _field(task: Task, device: torch.device, arguments: argparse.Namespace) -> tuple[dict[str, Learner], list[Absence]]:
    learners: dict[str, Learner] = {}
    absent = []
    for name, one in contenders(task, device, arguments.peers, COMPILED if arguments.compiled else ()):
        if isinstance(one, Absence):
            absent.append(one)
        else:
            learners[name] = one
    return learners, absent


def _prepared(
    learners: Mapping[str, Learner],
    batch: tuple[Tensor, Tensor],
    device: torch.device,
    eager: Mapping[str, str],
    absent: list[Absence],
) -> list[Candidate]:
    """Candidates for the race; a peer that fails with a whole batch, as for want of memory, joins the absent."""
    field = []
    for name, learner in learners.items():
        try:
            field.append(prepared(name, learner, batch, device, eager))
        except RuntimeError as error:  # not CaptureFailed, which is none
            if name in OWN | COMPILED:
                raise
            absent.append(impossible(name, error))
    return field


def prepared(
    name: str, learner: Learner, batch: tuple[Tensor, Tensor], device: torch.device, eager: Mapping[str, str]
) -> Candidate:
    """A contender's step, ready to be timed: ours is `tribayes.TrainingStep`, which records itself."""
    if isinstance(learner, Ours):
        call, step = learner.recording_step()
        return self_recording(name, call, lambda: step.captured, device, batch)
    return candidate(name, learner.step, device, eager, batch)


def _table(row: Mapping[str, Any]) -> str:
    lines: dict[str, list[object]] = {}
    for one in row["timings"]:
        lower, middle, upper = one["ratio"]
        lines[one["name"]] = [1e3 * one["seconds"][1], middle, f"{lower:.3f}-{upper:.3f}", one["how"]]
    lines |= {one["name"]: [None, None, "", one["reason"]] for one in row["absent"]}
    header = ["contender", "ms", "× deterministic", "quartiles", "how"]
    title = f"{row['title']}, batch {row['batch']}, {row['random_weights']:,} random weights"
    rows = [[name, *lines[name]] for name in (*NAMES, *COMPILED) if name in lines]
    return f"{title}\n\n" + format_table(header, rows)


if __name__ == "__main__":
    main()
