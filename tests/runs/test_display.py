"""What a training shows, in a terminal and elsewhere."""

import re
from io import StringIO
from pathlib import Path

import pytest

from tests.recipes.small import session
from tribayes.runs import display
from tribayes.runs.display import PlainDisplay, describe, display_for
from tribayes.runs.session import Glance, train_sessions


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still at its only entry."""
    now = [100.0]
    monkeypatch.setattr(display, "monotonic", lambda: now[0])
    return now


def test_one_run_and_several() -> None:
    one = Glance(0.5, 0.25, (0.05, 0.071), (-0.3, 0.01))
    assert describe([one]) == "loss 0.5000  error 25.00 %  τ 0.05 to 0.07  ρ -0.30 to 0.01"
    other = Glance(1.5, 0.75, (0.01,), (0.2,))
    assert describe([one, other]) == "loss 1.0000  error 50.00 %  τ 0.01 to 0.07  ρ -0.30 to 0.20"
    assert describe([Glance(0.5)]) == "loss 0.5000"
    assert describe([Glance(0.5, test_nll=1.25), Glance(0.5, test_nll=0.25)]) == "loss 0.5000  test NLL 0.7500"
    assert describe([Glance(None, None, (), ())]) == ""


def test_plain_lines_have_rate_and_time_left(tmp_path: Path, clock: list[float]) -> None:
    stream = StringIO()
    shown = PlainDisplay("digits", 10, 25, stream)
    started = session(tmp_path / "r")
    for iteration, now in ((20, 102.0), (24, 103.0), (25, 104.0)):  # the second comes too soon after the first
        started.trainer.advance(iteration - started.trainer.iteration)
        clock[0] = now
        shown.show([started])
    first, last = stream.getvalue().splitlines()
    assert re.fullmatch(r"digits: 20 of 25  5/s  0:01 left  loss \d\.\d{4}", first)
    assert last.startswith("digits: 25 of 25  4/s  0:00 left  loss ")


def test_plain_lines_come_every_ten_seconds(tmp_path: Path, clock: list[float]) -> None:
    stream = StringIO()
    shown = PlainDisplay("digits", 0, 25, stream)
    started = session(tmp_path / "r")
    for now in range(101, 125):
        started.trainer.iteration = now - 100
        clock[0] = float(now)
        shown.show([started])
    assert [line.split()[1] for line in stream.getvalue().splitlines()] == ["1", "11", "21"]


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (75, "1:15"), (7300, "2:01:40")])
def test_durations(seconds: float, text: str) -> None:
    assert display._duration(seconds) == text


def test_a_training_in_a_terminal_and_elsewhere(tmp_path: Path) -> None:
    terminal, file = Terminal(), StringIO()
    for name, stream in (("a", terminal), ("b", file)):
        with display_for("digits", 0, 25, stream) as shown:
            train_sessions([session(tmp_path / name)], shown)
    assert "\x1b[" in terminal.getvalue()
    assert "25/25" in terminal.getvalue()
    assert "\x1b" not in file.getvalue()
    assert [line.split("  ")[0] for line in file.getvalue().splitlines()] == ["digits: 10 of 25", "digits: 25 of 25"]
    assert "error" in file.getvalue()
    assert "τ" in file.getvalue()
