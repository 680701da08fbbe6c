"""What a training shows, in a terminal and elsewhere."""

import re
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from tests.recipes.small import session
from tests.runs.test_records import RECORD
from tribayes.runs import records, train_sessions
from tribayes.runs.records import describe, display


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still at its only entry."""
    now = [100.0]
    monkeypatch.setattr(records, "monotonic", lambda: now[0])
    return now


def test_one_run_and_several() -> None:
    one = replace(RECORD, one_sample_error=0.25, tau={"a": 0.05, "b": 0.071}, rho={"a": -0.3, "b": 0.01})
    assert describe([0.5], [one]) == "loss 0.5000  error 25.00 %  τ 0.05 to 0.07  ρ -0.30 to 0.01"
    other = replace(RECORD, one_sample_error=0.75, tau={"a": 0.01}, rho={"a": 0.2})
    assert describe([0.5, 1.5], [one, other]) == "loss 1.0000  error 50.00 %  τ 0.01 to 0.07  ρ -0.30 to 0.20"
    assert describe([0.5, None], [None]) == "loss 0.5000"
    plain = replace(RECORD, one_sample_error=None, tau={}, rho={})
    scored = [replace(plain, test_nll=1.25), replace(plain, test_nll=0.25)]
    assert describe([0.5, 0.5], scored) == "loss 0.5000  test NLL 0.7500"
    assert describe([], [plain]) == ""


def test_plain_lines_have_rate_and_time_left(clock: list[float]) -> None:
    stream = StringIO()
    with display("digits", 10, 25, stream) as show:
        for iteration, now in ((20, 102.0), (24, 103.0), (25, 104.0)):  # the second comes too soon after the first
            clock[0] = now
            show(iteration, lambda: "loss 0.5")
    assert stream.getvalue().splitlines() == [
        "digits: 20 of 25  5/s  0:00:01 left  loss 0.5",
        "digits: 25 of 25  4/s  0:00:00 left  loss 0.5",
    ]


def test_plain_lines_come_every_ten_seconds(clock: list[float]) -> None:
    stream = StringIO()
    with display("digits", 0, 25, stream) as show:
        for now in range(101, 125):
            clock[0] = float(now)
            show(now - 100, str)
    assert [line.split()[1] for line in stream.getvalue().splitlines()] == ["1", "11", "21"]


@pytest.mark.parametrize("kind", [Terminal, StringIO])
def test_a_name_commands_neither_the_terminal_nor_the_bar(clock: list[float], kind: type[StringIO]) -> None:
    """Rich would take brackets for marks, and end with an error where one is closed that was never opened."""
    stream = kind()
    with display("a [/b] [red]\x1b[2J", 0, 25, stream) as show:
        clock[0] = 120.0
        show(25, str)
    assert "a [/b] [red]\\x1b[2J" in stream.getvalue()
    assert "\x1b[2J" not in stream.getvalue()


def test_a_training_in_a_terminal_and_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, file = Terminal(), StringIO()
    for name, stream in (("a", terminal), ("b", file)):
        monkeypatch.setattr(sys, "stdout", stream)
        train_sessions([session(tmp_path / name)])
    assert "\x1b[" in terminal.getvalue()
    assert "25 of 25  loss " in terminal.getvalue()
    assert "100%" in terminal.getvalue()
    assert "\x1b" not in file.getvalue()
    first, last = file.getvalue().splitlines()
    assert re.fullmatch(r"digits: 10 of 25  \S+/s  \S+ left  loss \d\.\d{4}  error \S+ %  τ .*  ρ .*", first)
    assert last.startswith("digits: 25 of 25  ")
    assert "error" in file.getvalue()
    assert "τ" in file.getvalue()


def test_without_a_stream_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with display("digits", 0, 10, None) as show:
        show(10, lambda: pytest.fail("nobody looks"))
    assert capsys.readouterr() == ("", "")
