"""Several trainings at once on one GPU.

A network of a hundred thousand weights leaves a modern GPU idle between launches. The steps of several trainers are
recorded as parallel branches of one CUDA graph, each several steps long, so that one launch drives them all. What a
trainer computes does not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from tribayes._graphs import Recording, aside
from tribayes.recipes.recipe_trainer import RECORDED, RecipeTrainer
from tribayes.runs import Session, Trainer, train_sessions
from tribayes.runs.trainer import WINDOW


class SideBySide:
    """Trainers that stand at the same iteration, on one device."""

    def __init__(self, trainers: Sequence[RecipeTrainer]) -> None:
        self.trainers = trainers
        self._recording: Recording | None = None

    def advance(self, steps: int) -> None:
        """Train all of them some steps, at most to the end of the window. On a CPU, or alone, they take turns."""
        first = self.trainers[0]
        if first.device.type == "cpu" or len(self.trainers) == 1:
            for trainer in self.trainers:
                trainer.advance(steps)
            return
        last = first.iteration + min(steps, WINDOW - first.iteration % WINDOW)
        if self._recording is None:
            self._eagerly(min(RECORDED, steps))
            self._recording = self._recorded()
        for trainer in self.trainers if first.iteration < last else ():
            trainer.prepare()
        while last - first.iteration >= RECORDED:
            self._recording.replay()
            for trainer in self.trainers:
                trainer.iteration += RECORDED
        if first.iteration < last:
            self._eagerly(last - first.iteration)
        torch.cuda.synchronize()

    def _eagerly(self, steps: int) -> None:
        with aside(self.trainers[0].device):
            for trainer in self.trainers:
                Trainer.advance(trainer, steps)  # without a recording of its own

    def _recorded(self) -> Recording:
        """Ten steps of every trainer, with a branch for each of them."""
        branches = [torch.cuda.Stream() for _ in self.trainers]

        def run() -> None:
            trunk = torch.cuda.current_stream()
            for trainer, branch in zip(self.trainers, branches, strict=True):
                branch.wait_stream(trunk)
                with torch.cuda.stream(branch):
                    trainer.take_recorded_steps()
            for branch in branches:
                trunk.wait_stream(branch)

        return Recording(run, self.trainers[0].device, [trainer.generator for trainer in self.trainers])


def train_side_by_side(trainers: Sequence[RecipeTrainer], pause: Callable[[], None], every: int = WINDOW) -> None:
    """Run every trainer to its last iteration; `pause` is called at multiples of `every` and at a window's end.

    All must stand at the same iteration and have as many to go. What `pause` raises ends the training, with every
    trainer at a step's end.
    """
    first, together = trainers[0], SideBySide(trainers)
    while first.iteration < first.iterations:
        together.advance(min(every - first.iteration % every, first.iterations - first.iteration))
        pause()


def train_sessions_side_by_side(sessions: Sequence[Session], title: str, progress: bool = True) -> None:
    """Train every session to its last iteration and keep the networks.

    All have as many iterations and lie on one device. They are first brought to the same iteration: a kill may have
    come between the checkpoints of one and the next.
    """
    furthest = max(session.trainer.iteration for session in sessions)
    for session in sessions:
        trainer = session.trainer
        while trainer.iteration < furthest:
            to_record = session.interval - trainer.iteration % session.interval
            trainer.advance(min(to_record, furthest - trainer.iteration))
            session.pause()
    trainers = [session.trainer for session in sessions if isinstance(session.trainer, RecipeTrainer)]
    train_sessions(sessions, SideBySide(trainers).advance, title, progress)
