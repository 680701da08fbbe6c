"""A small sample of every trial of the fault suite, and the page about it."""

from __future__ import annotations

import fnmatch
import gc
import json
import random
import time
from pathlib import Path

import pytest

from tests.faults import page
from tests.faults.__main__ import COUNTS
from tests.faults.calls import is_finite, outcome, tried
from tests.faults.greed import measured
from tests.faults.junk import MEGA
from tests.faults.legal import EXCLUDED, legal
from tests.faults.surface import subjects
from tests.faults.tally import Tally, damaged
from tests.faults.trials import TRIALS, attempt

SHARES = {"calls": 0.004, "images": 0.02, "json": 0.005, "questions": 0.0005, "steps": 0.0003, "data": 0.02}
SHARES |= {"tensors": 0.001, "models": 0.01, "own runs": 0.01, "tables": 0.01, "pictures": 0.02, "junk": 0.02}
SLOW = {
    "kills",
    "operations",
    "full disk",
    "read-only",
    "copies",
    "clocks",
    "memory",
}  # a training or thousands of questions each


@pytest.mark.parametrize("name", sorted(TRIALS.keys() - SLOW))
def test_a_sample_holds(name: str) -> None:
    tally = attempt(name, SHARES.get(name, 0.01))
    assert tally.broken == []
    assert tally.held == tally.tried >= 3


def test_a_run_killed_before_file_operations_ends_with_the_same_bits() -> None:
    tally = attempt("operations", 0)
    assert (tally.held, tally.tried, tally.broken) == (3, 3, [])


def test_a_broken_promise_is_counted_and_described() -> None:
    tally = Tally()

    def answered(error: Exception) -> None:
        raise error

    for error in (ValueError("ours"), KeyError("theirs"), TypeError("`x` (=1) must be a tensor"), TypeError("int()")):
        tally.attempt(lambda e=error: answered(e), "call")
    assert (tally.tried, tally.held) == (4, 2)
    assert tally.broken == ["call: KeyError: 'theirs'", "call: TypeError: int()"]
    assert not is_finite((1.0, [float("nan")]))


def test_damage_is_damage() -> None:
    rng, whole = random.Random(0), bytes(range(200))
    changed = sum(damaged(whole, rng) != whole for _ in range(100))
    assert changed > 60


def test_the_page_is_up_to_date(tmp_path: Path) -> None:
    page.main(["--check"])
    counts = json.loads(COUNTS.read_text())
    assert counts["trials"].keys() == TRIALS.keys()
    counts["trials"]["kills"] |= {"held": 1, "broken": ["run 3"]}
    (tmp_path / "counts.json").write_text(json.dumps(counts))
    with pytest.raises(SystemExit, match=r"reliability\.md is not what the counts say; run python -m"):
        page.main(["--check", "--counts", str(tmp_path / "counts.json")])
    assert "Not held:\n\n- kills: run 3\n" in page.document(counts)


def test_every_public_callable_is_tried_or_left_out_for_a_reason() -> None:
    names = [subject.name for subject in subjects()]
    assert len(names) == len(set(names)) > 200
    for pattern, reason in EXCLUDED.items():
        assert reason
        assert fnmatch.filter(names, pattern), f"nothing is called {pattern} any more"
    for subject in tried():
        held, words = outcome(subject, legal(subject), subject.name)
        assert held, words


def test_what_is_greedy_is_found_out() -> None:
    def ours() -> None:
        raise ValueError("refused")

    def greedy() -> None:
        gc.collect()  # as may happen at any time: it frees what others left
        kept = bytearray(b"x") * (200 * MEGA)
        time.sleep(0.1)
        del kept

    garbage: list[object] = [bytearray(b"x") * (300 * MEGA)]
    garbage.append(garbage)
    del garbage
    held, words = measured(greedy, 100 * MEGA)
    assert (held, words.endswith("+ read")) == (False, True), words
    held, words = measured(lambda: {}["theirs"], 100 * MEGA)
    assert (held, words.endswith("- KeyError: 'theirs'")) == (False, True)
    held, words = measured(ours, 100 * MEGA)
    assert (held, words.endswith("+ refused")) == (True, True)
