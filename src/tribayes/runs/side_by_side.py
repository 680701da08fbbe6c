"""Several trainings at once on one GPU.

A network of a hundred thousand weights leaves a modern GPU idle between launches. The steps of several trainers are
recorded as parallel branches of one CUDA graph, each several steps long, so that one launch drives them all. What a
trainer computes does not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from tribayes._graphs import Recording, aside
from tribayes.runs.trainer import WINDOW, Trainer

_STEPS = 10  # of every trainer, in one replay; divides WINDOW
_WARM_UP = 10  # steps before a recording, as torch asks for; they count


def train_side_by_side(trainers: Sequence[Trainer], pause: Callable[[], None], every: int = WINDOW) -> None:
    """Run every trainer to its last iteration; `pause` is called at multiples of `every` and at a window's end.

    On a CPU, or where a step needs the host, they take turns. All must stand at the same iteration and have as many to
    go. What `pause` raises ends the training, with every trainer at a step's end.
    """
    first = trainers[0]
    recording = None
    captured = first.device.type == "cuda" and all(trainer.capturable for trainer in trainers)
    while first.iteration < first.iterations:
        ahead = (every - first.iteration % every, WINDOW - first.iteration % WINDOW)
        steps = min(*ahead, first.iterations - first.iteration)
        if not captured:
            _eagerly(trainers, steps)
        elif recording is None:
            with aside(first.device):
                _eagerly(trainers, min(_WARM_UP, steps))
            recording = _recorded(trainers)
        else:
            _replay(trainers, recording, steps)
        pause()


def _eagerly(trainers: Sequence[Trainer], steps: int) -> None:
    for trainer in trainers:
        trainer.advance(steps)


def _replay(trainers: Sequence[Trainer], recording: Recording, steps: int) -> None:
    for trainer in trainers:
        trainer.prepare()
    for _ in range(steps // _STEPS):
        recording.replay()
    for trainer in trainers:
        trainer.note_steps(steps // _STEPS * _STEPS)
    if steps % _STEPS:
        with aside(trainers[0].device):
            _eagerly(trainers, steps % _STEPS)
    torch.cuda.synchronize()


def _recorded(trainers: Sequence[Trainer]) -> Recording:
    """Ten steps of every trainer, with a branch for each of them."""
    branches = [torch.cuda.Stream() for _ in trainers]

    def run() -> None:
        trunk = torch.cuda.current_stream()
        for trainer, branch in zip(trainers, branches, strict=True):
            branch.wait_stream(trunk)
            with torch.cuda.stream(branch):
                for _ in range(_STEPS):
                    trainer.step()
        for branch in branches:
            trunk.wait_stream(branch)

    return Recording(run, trainers[0].device, [trainer.generator for trainer in trainers])
