"""A figure over seeds: its t-interval, pairs by seed, and how it is written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reproduction.results.over_seeds import Spread, counted, interval, number, percent
from reproduction.results.quantities import score
from reproduction.results.result_files import Result, Results
from tests.reproduction.synthetic import made_up


def spread(*values: float) -> Spread:
    found = Spread.of(values)
    assert found is not None
    return found


def test_the_interval_is_that_of_students_t() -> None:
    stats = pytest.importorskip("scipy.stats", reason="scikit-learn brings it along")
    for count in range(2, 17):
        exact = stats.t.ppf(0.975, count - 1) / count**0.5
        assert Spread(0.0, 1.0, count).half_width == pytest.approx(exact, rel=1e-3)
    assert Spread(0.0, 1.0, 100).half_width == pytest.approx(2.131 / 10)  # wider than it need be, never narrower
    assert spread(1.0, 2.0, 3.0).bounds == pytest.approx((2 - 2.4843, 2 + 2.4843), abs=1e-3)


@pytest.mark.parametrize(
    ("values", "sign"),
    [
        ((1.0, 2.0, 3.0), 0),  # 2 ± 2.48
        ((2.0, 3.0, 4.0), 1),  # 3 ± 2.48
        ((-2.0, -3.0, -4.0), -1),
        ((0.1,), None),
        ((0.0, 0.0), 0),
        ((1e-17, 1e-17), 0),  # a rounding is no difference
        ((1e-4, 1e-4), 1),
    ],
)
def test_a_sign_needs_the_whole_interval(values: tuple[float, ...], sign: int | None) -> None:
    assert spread(*values).sign == sign


def test_a_limit_moves_the_mean_and_not_the_spread() -> None:
    found = spread(1.0, 2.0, 3.0)
    assert found.above(0.5) == Spread(1.5, 1.0, 3)
    assert found.below(0.5) == Spread(-1.5, 1.0, 3)


def with_error(name: str, seed: int, error: float | None) -> Result:
    run = made_up(name, seed)
    return replace(run, evaluation={**run.evaluation, "error": error})


def test_differences_are_taken_between_runs_of_the_same_seed() -> None:
    ours = [with_error("digits", seed, error) for seed, error in ((0, 0.1), (1, 0.2), (2, 0.4), (3, None))]
    theirs = [with_error("digits-diagonal", seed, error) for seed, error in ((1, 0.5), (2, 0.5), (3, 0.5), (4, 0.5))]
    results = Results(ours + theirs)
    found = results.differences("digits", "digits-diagonal", score("error"))
    assert found == pytest.approx({1: -0.3, 2: -0.1})
    mean = results.difference("digits", "digits-diagonal", score("error"))
    assert mean is not None
    assert (mean.mean, mean.count) == (pytest.approx(-0.2), 2)
    assert results.difference("digits", "mnist-lenet100", score("error")) is None


def test_numbers_are_written_one_way() -> None:
    assert percent(Spread(0.00701, 0.00032, 3)) == "0.70 ± 0.03 %"
    assert percent(Spread(0.2, None, 1)) == "20.00 %"
    assert percent(None) == number(None) == counted(None) == interval(None) == "not run"
    assert number(Spread(-0.4, 0.01, 3), 2) == "−0.40 ± 0.01"
    assert counted(9668) == "9,668"
    assert counted(Spread(9668.0, None, 1)) == "9,668"
    assert counted(Spread(9668.33, 4.16, 3)) == "9,668.3 ± 4.2"
    assert interval(spread(1.0, 2.0, 3.0), 2) == "2.00 [−0.48, 4.48]"
    assert interval(spread(0.01, 0.02, 0.03), 1, 100, " %") == "2.0 % [−0.5, 4.5]"
    assert interval(Spread(0.2, None, 1), 2) == "0.20"
