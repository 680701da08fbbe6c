"""The loop that trains every arm: data on the device, seeded order, one schedule, a line for each epoch."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

import tribayes as tb
from benchmarks.modern.arms import Arm, Batches, Laplace, build
from benchmarks.modern.sources import Study
from benchmarks.modern.task import Settings, Task

Say = Callable[[str], None]


class OutOfTime(Exception):
    """A run that would not end in time, seen after its first epochs."""


class LostItsWay(Exception):
    """A loss that is no number any more."""


@dataclass(frozen=True)
class Trained:
    """An arm at the end of its training, the loss of each epoch, and seconds: of the steps, and of what came then."""

    arm: Arm
    losses: list[float]
    seconds: float
    finishing_seconds: float


def task_of(settings: Settings, study: Study) -> Task:
    """The run in numbers."""
    size = len(study.images)
    per_epoch = max(1, size // min(settings.batch, size))
    return Task(settings, size, settings.epochs * per_epoch, study.device)


def train(
    settings: Settings,
    study: Study,
    say: Say = print,
    time_left: Callable[[], float] = lambda: float("inf"),
    adopted: dict[str, Tensor] | None = None,
) -> Trained:
    """Train an arm; `adopted` are the weights of a plain network, trained already, for arms that start there."""
    task = task_of(settings, study)
    arm = build(task, study.image, study.classes)
    begin = perf_counter()
    if isinstance(arm, Laplace) and adopted is not None:
        arm.adopt(adopted)
        losses: list[float] = []
    else:
        losses = _epochs(arm, task, study, say, time_left)
    middle = _now(task.device)
    arm.finish(_batches(task, study, seed=settings.seed + 1))
    return Trained(arm, losses, middle - begin, _now(task.device) - middle)


def _epochs(arm: Arm, task: Task, study: Study, say: Say, time_left: Callable[[], float]) -> list[float]:
    schedule = torch.optim.lr_scheduler.LambdaLR(arm.optimizer, arm.rate)
    batches = _batches(task, study, seed=task.settings.seed)
    losses, epochs = [], task.settings.epochs
    arm.model.train()
    total = torch.zeros((), device=task.device)
    for epoch in range(epochs):
        begin, count = perf_counter(), 0
        total.zero_()
        for images, labels in batches(True):
            try:
                total += arm.step(images, labels)
            except tb.NonFiniteLoss as error:  # a CPU looks at every step; a GPU is looked at below
                raise LostItsWay(str(error)) from error
            schedule.step()
            count += 1
        losses.append(float(total) / count)  # waits for the GPU, once per epoch
        seconds = perf_counter() - begin
        say(f"  epoch {epoch + 1:3} of {epochs}: loss {losses[-1]:.4f}, {seconds:.1f} s")
        if losses[-1] != losses[-1] or abs(losses[-1]) == float("inf"):
            raise LostItsWay(f"the loss is {losses[-1]} after epoch {epoch + 1}")
        if epoch and seconds * (epochs - epoch - 1) > time_left():  # the first epoch has compiling and recording in it
            raise OutOfTime(f"{epochs - epoch - 1} epochs of {seconds:.0f} s are left, and {time_left():.0f} s")
    return losses


def _batches(task: Task, study: Study, seed: int) -> Batches:
    """Passes over the training images in an order and with crops of their own; what fills no batch waits for luck."""
    source = torch.Generator(study.device).manual_seed(seed)
    size = min(task.settings.batch, len(study.images))

    def one_pass(augmented: bool) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(study.images), generator=source, device=study.device)
        whole = len(order) - (len(order) % size if augmented else 0)
        for chosen in order[:whole].split(size):
            images = study.images[chosen]
            seen = study.augmented(images, source) if augmented else study.prepared(images)
            yield seen.contiguous(memory_format=task.memory_format), study.labels[chosen]

    return one_pass


def expected_bytes(settings: Settings, study: Study) -> int:
    """GPU memory that a run should take: images, weights with what is kept for each, and what the way back needs."""
    task = task_of(settings, study)
    with torch.device("meta"):
        network = task.kind.build(study.image, study.classes, 0.0)
        images = torch.empty(min(settings.batch, len(study.images)), *study.image)
    seen: dict[int, int] = {}

    def note(value: Tensor) -> Tensor:
        seen[value.untyped_storage()._cdata] = value.nbytes
        return value

    with torch.autograd.graph.saved_tensors_hooks(note, lambda value: value):
        kept = network(images)  # its graph holds what was noted, so that no two share an address
    del kept
    weights = sum(parameter.nbytes for parameter in network.parameters())
    activations = sum(seen.values()) // (2 if study.device.type == "cuda" else 1)  # bf16
    copies = {"mean_field": 9, "ivon": 8, "swag": 26, "ours": 5, "ours_tridiagonal": 5}.get(settings.arm, 4)
    data = study.images.nbytes + study.held_out.nbytes + 8 * study.held_out.nbytes
    return data + copies * weights + 2 * activations  # gradients of activations, and the recording's own room


def free_memory(device: torch.device) -> None:
    """Give back what a finished run held."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return perf_counter()
