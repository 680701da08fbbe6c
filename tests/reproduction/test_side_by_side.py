"""Runs trained side by side are as runs alone."""

from __future__ import annotations

from pathlib import Path

from reproduction.training.side_by_side import train_sessions_side_by_side, train_side_by_side
from tests.recipes.small import names, session, timeless, trainer
from tests.runs.test_session import run_to
from tribayes.runs import train_sessions


def test_runs_together_are_as_runs_alone(tmp_path: Path) -> None:
    together = [session(tmp_path / f"together{seed}", seed) for seed in (0, 1)]
    train_sessions_side_by_side(together, "both", progress=False)
    for seed in (0, 1):
        alone = session(tmp_path / f"alone{seed}", seed)
        train_sessions([alone], progress=False)
        assert alone.run.final.read_bytes() == together[seed].run.final.read_bytes()
        assert timeless(alone.run.metrics) == timeless(together[seed].run.metrics)
        assert names(alone.run.folder) == names(together[seed].run.folder)


def test_runs_whose_checkpoints_are_apart_are_brought_level(tmp_path: Path) -> None:
    whole = [session(tmp_path / f"whole{seed}", seed) for seed in (0, 1)]
    train_sessions_side_by_side(whole, "both", progress=False)
    for seed, stop in ((0, 17), (1, 5)):
        run_to(session(tmp_path / f"r{seed}", seed), stop).checkpoint()
    again = [session(tmp_path / f"r{seed}", seed) for seed in (0, 1)]
    train_sessions_side_by_side(again, "both", progress=False)
    for before, after in zip(whole, again, strict=True):
        assert before.run.final.read_bytes() == after.run.final.read_bytes()
        assert timeless(before.run.metrics) == timeless(after.run.metrics)


def test_pauses_are_at_multiples_wherever_it_starts() -> None:
    training = trainer(iterations=45)
    training.advance(13)
    seen: list[int] = []
    train_side_by_side([training], lambda: seen.append(training.iteration), every=10)
    assert seen == [20, 30, 40, 45]
