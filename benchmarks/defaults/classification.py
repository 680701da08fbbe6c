"""Images: digits and Fashion-MNIST."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

import tribayes as tb
from benchmarks.defaults.judging import Rows, Trained
from benchmarks.defaults.keeping import Keep
from benchmarks.defaults.plan import PLAIN, Arm, Job, Task, kl_weight
from tribayes._progress import Advance
from tribayes.data import load
from tribayes.recipes.networks import DigitsNet, LeNet


class Images(NamedTuple):
    """A data set; its training images are split in two, and test images are not touched before the end."""

    train: Rows
    held_out: Rows
    test: Rows


PRIORS = {"paper": tb.Prior(scale=1.0), "relative": tb.RelativePrior()}

_TRAINING = {"digits": 1_000, "fashion-mnist": 50_000}  # the other training images are held out
_GREY = {"digits": (0.5, 0.5), "fashion-mnist": (0.286, 0.353)}  # mean and spread of a pixel, out of 1


def network(task: str) -> nn.Module:
    """A fresh one, from torch's global random numbers."""
    match task:
        case "digits-mlp":
            return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        case "digits-cnn":
            return DigitsNet()
        case "fashion-mlp":
            return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
        case "fashion-lenet":
            return LeNet(100)
    raise ValueError(f"there is no task {task!r} of images")


@cache
def images(task: str, folder: Path | None) -> Images:
    """The images of a task as its network sees them."""
    name = "digits" if task.startswith("digits") else "fashion-mnist"
    data = load(name, folder, progress=False)
    mean, spread = _GREY[name]
    full = 255 if data.train_images.dtype == torch.uint8 else 1
    seen, test = ((some.float() / full - mean) / spread for some in (data.train_images, data.test_images))
    order = torch.randperm(len(seen), generator=torch.Generator().manual_seed(0))
    kept, held = order[: _TRAINING[name]], order[_TRAINING[name] :]
    labels = data.train_labels
    return Images(Rows(seen[kept], labels[kept]), Rows(seen[held], labels[held]), Rows(test, data.test_labels))


def trained(job: Job, data: Images, keep: Keep, advance: Advance) -> Trained:
    """The network of a job, trained, or as it was kept."""
    (seed,) = job.seeds
    torch.manual_seed(seed)
    net, likelihood = network(job.task.name), tb.Categorical()
    if job.arm == PLAIN:
        model, objective = net, tb.MaximumLikelihood(likelihood)
    else:
        model = tb.to_bayesian(net, prior=PRIORS[job.arm.prior], family=job.arm.family, generator=seed)
        objective = elbo(likelihood, job.arm, len(data.train.targets), weights_of(model))
    keep(job, model, lambda: train(model, objective, job.task, data.train, seed, advance))
    return Trained(model, likelihood, job.arm != PLAIN)


def elbo(likelihood: tb.Likelihood, arm: Arm, rows: int, weights: int) -> tb.ELBO:
    return tb.ELBO(likelihood, data_size=rows, kl_weight=kl_weight(arm.share, rows, weights))


def weights_of(model: tb.BayesianModule) -> int:
    """K: random weights, whose means these are."""
    return sum(mean.numel() for _, mean in model.means())


def train(
    model: nn.Module, objective: tb.inference.Objective, task: Task, rows: Rows, seed: int, advance: Advance
) -> None:
    """SGD with Nesterov's momentum; the rate falls along half a cosine. The seed orders the data, alike in all arms."""
    bayesian = isinstance(objective, tb.ELBO)
    if bayesian:
        groups = tb.parameter_groups(model, task.lr, weight_decay=task.weight_decay)
    else:
        groups = [{"params": list(model.parameters()), "weight_decay": task.weight_decay}]
    optimizer = torch.optim.SGD(groups, lr=task.lr, momentum=0.9, nesterov=True)
    step = tb.TrainingStep(model, objective, optimizer, generator=seed)
    order = list(batches(len(rows.targets), task.batch, task.length, seed))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, len(order))
    for some in order:
        step(rows.inputs[some], rows.targets[some])
        schedule.step()
        advance(1 / len(order))
    if bayesian:
        tb.stabilise_(model)


def batches(rows: int, size: int, epochs: int, seed: int) -> Iterator[Tensor]:
    """Random rows, each once per epoch at most; those that fill no batch are left for the next."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        order = torch.randperm(rows, generator=generator)
        yield from order[: rows // size * size].split(size)


def data_folder(given: Path | None) -> Path | None:
    """Where the data lies, if somebody has said so."""
    named = os.environ.get("TRIBAYES_DATA")
    return given or (Path(named) if named else None)
