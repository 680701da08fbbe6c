"""What a session writes and when."""

import math
import re
from pathlib import Path

import pytest
import torch

from tests.recipes.small import session, timeless, trainer
from tribayes.runs.session import Session, read_checkpoint, train_sessions


def run_to(started: Session, iteration: int) -> Session:
    """Train by hand, pausing at multiples of five."""
    while started.trainer.iteration < iteration:
        now = started.trainer.iteration
        started.trainer.advance(min(5 - now % 5, iteration - now))
        started.pause()
    return started


def checkpointed(started: Session) -> int:
    return read_checkpoint(started.run)[1]["iteration"]


def test_a_record_sums_up_the_steps_since_the_last(tmp_path: Path) -> None:
    started = run_to(session(tmp_path / "r"), 25)
    alone = trainer()
    alone.advance(25)
    losses = alone.window_losses().double()
    for record, part in zip(started.run.records(), losses.split([10, 10, 5]), strict=True):
        assert [record.loss, record.nll] == part.mean(0).tolist()
        assert [record.loss_std, record.nll_std] == part.std(0, correction=0).tolist()
    assert started.run.records()[-1].one_sample_error == started.trainer.one_sample_scores(started.test)[0]


def test_watching_does_not_change_the_training(tmp_path: Path) -> None:
    started = run_to(session(tmp_path / "r", seconds=0), 25)
    alone = trainer()
    alone.advance(25)
    for name, value in alone.state().items():
        assert torch.equal(value, started.trainer.state()[name]), name


def test_checkpoints_come_by_time(tmp_path: Path) -> None:
    often = run_to(session(tmp_path / "often", seconds=0), 15)
    assert checkpointed(often) == 15
    never = run_to(session(tmp_path / "never", seconds=1e9), 15)
    assert not never.run.checkpoint.exists()
    never.checkpoint()
    assert checkpointed(never) == 15
    content = never.run.checkpoint.stat()
    never.checkpoint()  # of the same iteration: nothing to do
    assert never.run.checkpoint.stat().st_ino == content.st_ino


def test_a_checkpoint_never_knows_of_more_than_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = run_to(session(tmp_path / "r", seconds=0), 5)

    def full(*_: object) -> None:
        raise OSError("full")

    monkeypatch.setattr("tribayes.runs.session.add_record", full)
    with pytest.raises(OSError, match="full"):
        run_to(started, 10)
    assert checkpointed(started) == 5


@pytest.mark.parametrize("stop", [4, 10, 17, 25])
def test_a_second_session_goes_on_exactly(tmp_path: Path, stop: int) -> None:
    whole = run_to(session(tmp_path / "whole"), 25)
    whole.finish()
    first = run_to(session(tmp_path / "parts"), stop)
    first.checkpoint()
    run_to(first, min(stop + 6, 25))  # lost in a crash: what it wrote is written again
    second = session(tmp_path / "parts")
    assert second.trainer.iteration == stop
    assert second.seconds > 0
    run_to(second, 25).finish()
    assert second.run.final.read_bytes() == whole.run.final.read_bytes()
    assert timeless(second.run.metrics) == timeless(whole.run.metrics)


def test_time_adds_up_over_a_resumption(tmp_path: Path) -> None:
    first = run_to(session(tmp_path / "r"), 10)
    first._seconds_before = 100.0
    first.checkpoint()
    assert 100 <= session(tmp_path / "r").seconds < 130


def test_a_diverged_training_is_stopped(tmp_path: Path) -> None:
    started = session(tmp_path / "r")
    with torch.no_grad():
        next(iter(started.trainer.model.parameters())).fill_(math.nan)
    with pytest.raises(FloatingPointError, match=r"step 0 is not finite: .* Weights are not finite any more"):
        run_to(started, 10)
    started.trainer.take_step._looks = False  # as on a GPU, where a step does not wait to see its loss
    started.trainer.iteration = 0
    with pytest.raises(ValueError, match=r"`loss` \(='nan after iteration \d+ of .*'\) must stay finite; the"):
        run_to(started, 10)
    assert started.run.records() == []


def test_a_diverged_training_leaves_the_last_good_checkpoint(tmp_path: Path) -> None:
    """Checkpoints come by time, records by iteration: at 15 none is due that would look at the loss."""
    started = run_to(session(tmp_path / "r", seconds=0), 10)
    good = started.run.checkpoint.read_bytes()
    parameter = next(iter(started.trainer.model.parameters()))
    with torch.no_grad():
        parameter.flatten()[3] = math.inf
    with pytest.raises(FloatingPointError, match=r"step 10 is not finite: .* Nothing of this step was applied"):
        run_to(started, 15)
    assert started.run.checkpoint.read_bytes() == good
    started.trainer.take_step._looks = False  # as on a GPU, where only a checkpoint looks
    with pytest.raises(ValueError, match=r"`loss` \(='.* after iteration \d+ of .*'\) must stay finite; the training"):
        run_to(started, 15)
    with pytest.raises(ValueError, match="must stay finite"):
        started.checkpoint()
    assert started.run.checkpoint.read_bytes() == good


def test_a_weight_that_is_not_finite_is_kept_out_of_a_checkpoint_though_no_loss_has_seen_it(tmp_path: Path) -> None:
    started = run_to(session(tmp_path / "r"), 10)
    name, parameter = next(iter(started.trainer.model.named_parameters()))
    with torch.no_grad():
        parameter.flatten()[3] = math.nan
    with pytest.raises(ValueError, match=rf"`{re.escape(name)}` \(='nan after iteration 10 of .*'\) must stay finite"):
        started.checkpoint()
    with pytest.raises(ValueError, match="must stay finite"):
        started.finish()
    assert not started.run.checkpoint.exists()
    assert not started.run.finished


def test_the_newest_figures(tmp_path: Path) -> None:
    started = session(tmp_path / "r")
    assert (started.loss, started.newest) == (None, None)
    started.trainer.advance(3)
    assert started.loss == pytest.approx(float(started.trainer.window_losses()[:, 0].mean()))
    assert started.newest is None
    record = run_to(started, 10).run.records()[-1]
    assert started.newest == record
    assert started.loss == record.loss
    started.checkpoint()
    again = session(tmp_path / "r")
    assert (again.loss, again.newest) == (record.loss, record)


def test_listeners_hear_of_every_record(tmp_path: Path) -> None:
    started = session(tmp_path / "r")
    heard = []
    started.listeners.append(heard.append)
    run_to(started, 25)
    assert heard == started.run.records()


def test_pauses_are_at_multiples_wherever_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = run_to(session(tmp_path / "r", iterations=45), 13)
    seen: list[int] = []
    monkeypatch.setattr(started, "pause", lambda: seen.append(started.trainer.iteration))
    train_sessions([started], progress=False)
    assert seen == [20, 30, 40, 45]
