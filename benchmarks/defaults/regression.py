"""UCI regression: the networks of all splits of a set are trained at once, as in benchmarks.uci."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

import tribayes as tb
from benchmarks.defaults.classification import PRIORS, elbo, weights_of
from benchmarks.defaults.judging import Rows, Trained
from benchmarks.defaults.keeping import Keep
from benchmarks.defaults.plan import Arm, Job, Task
from benchmarks.uci import training as uci
from benchmarks.uci.splits import Split, Standardised, load_splits
from tribayes._progress import Advance

NOISE = 0.5  # start, in standard deviations of the target


class Table(NamedTuple):
    """One split: four fifths of its training rows to train on, the others held out; all in units of the four fifths."""

    train: Rows
    held_out: Rows
    test: Rows
    unit: float  # of the target

    @classmethod
    def of(cls, split: Split, seed: int) -> Table:
        inner = split.held_out(seed)
        outer = Split(inner.train_inputs, inner.train_targets, split.test_inputs, split.test_targets)
        held, test = Standardised.of(inner), Standardised.of(outer)
        return cls(
            Rows(held.split.train_inputs, held.split.train_targets),
            Rows(held.split.test_inputs, held.split.test_targets),
            Rows(test.split.test_inputs, test.split.test_targets),
            held.target_std,
        )


@cache
def _splits(name: str, folder: Path | None, count: int) -> list[Split]:
    if folder is None:
        raise SystemExit("where are the UCI sets? pass --data-dir DIR or set TRIBAYES_DATA")
    inside = folder / "uci" / name
    return load_splits(inside if inside.is_dir() else folder / name, count)


def table(name: str, folder: Path | None, number: int) -> Table:
    """Split `number` of a set."""
    return Table.of(_splits(name, folder, number + 1)[number], number)


class Objective(uci.Objective):
    """A Bayesian network with its evidence lower bound, by the rule."""

    def __init__(self, inputs: int, rows: int, arm: Arm) -> None:
        nn.Module.__init__(self)
        self.model = tb.to_bayesian(uci.Network(inputs), prior=PRIORS[arm.prior], family=arm.family)
        self.elbo = elbo(tb.Gaussian(noise=NOISE, learned=True), arm, rows, weights_of(self.model))


def trained(job: Job, tables: list[Table], keep: Keep, advance: Advance) -> list[Trained]:
    """The networks of a job, one per split, trained, or as they were kept."""
    objectives = []
    for seed, one in zip(job.seeds, tables, strict=True):
        torch.manual_seed(seed)
        rows, inputs = one.train.inputs.shape
        objectives.append(Objective(inputs, rows, job.arm))
    torch.manual_seed(job.seeds[0])
    keep(job, nn.ModuleList(objectives), lambda: train(objectives, tables, job.task, advance))
    return [Trained(own.model, own.likelihood, unit=one.unit) for own, one in zip(objectives, tables, strict=True)]


def train(objectives: list[Objective], tables: list[Table], task: Task, advance: Advance) -> None:
    """AdamW on all at once: it works on each number by itself, so this is training them one by one."""

    def adamw(stacked: Any) -> torch.optim.Optimizer:
        own = {"weight_decay": task.weight_decay, "likelihood": stacked.likelihood}
        return torch.optim.AdamW(tb.parameter_groups(stacked.model, task.lr, **own))

    inputs = torch.stack([one.train.inputs for one in tables])
    targets = torch.stack([one.train.targets.unsqueeze(-1) for one in tables])
    part = partial(advance, 1 / task.length)
    uci.train_together(objectives, (inputs, targets), adamw, task.length, task.batch, part)
