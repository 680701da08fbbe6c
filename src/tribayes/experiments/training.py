"""Runs trained to their end, one or several at once, under one display, ready to be stopped at any time."""

from __future__ import annotations

from collections.abc import Sequence

from tribayes.experiments.display import Display
from tribayes.experiments.session import Session
from tribayes.experiments.side_by_side import train_side_by_side
from tribayes.experiments.stopping import Stopped, StopRequest

_STEPS_ON_CPU = 10  # between two pauses: a tenth of a second, so that display and Ctrl-C react at once


def train(sessions: Sequence[Session], display: Display) -> None:
    """Train every session to its last iteration and keep the networks.

    The sessions must have as many iterations each and lie on one device. On SIGINT or SIGTERM all write a checkpoint
    and `Stopped` is raised.
    """
    with StopRequest() as stop:

        def pause() -> None:
            for session in sessions:
                session.pause()
            display.show(sessions)
            if stop.number is not None:
                for session in sessions:
                    session.checkpoint()
                raise Stopped(stop.number)

        _level(sessions)
        trainers = [session.trainer for session in sessions]
        on_cpu = trainers[0].device.type == "cpu"
        train_side_by_side(trainers, pause, _STEPS_ON_CPU if on_cpu else sessions[0].interval)
        for session in sessions:
            session.finish()


def _level(sessions: Sequence[Session]) -> None:
    """Bring all to the same iteration: a kill may have come between the checkpoints of one and the next."""
    furthest = max(session.trainer.iteration for session in sessions)
    for session in sessions:
        trainer = session.trainer
        while trainer.iteration < furthest:
            to_record = session.interval - trainer.iteration % session.interval
            trainer.advance(min(to_record, furthest - trainer.iteration))
            session.pause()
