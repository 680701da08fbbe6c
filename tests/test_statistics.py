"""A short version of every trial of `python -m tests.statistics`, and that its batteries see what they should.

About 300 p-values are compared with 1e-7 (`LEAST`) here: one run in 30,000 fails without a fault.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.statistics import bits, coverage, normals, sources
from tests.statistics.__main__ import LEAST, TRIALS, faults, run
from tests.statistics.section import section
from tribayes.posterior import Stream
from tribayes.posterior.counter import philox
from tribayes.posterior.draw import cuda


@pytest.mark.parametrize("name", sorted(TRIALS.keys() - {"intervals"}))
def test_nothing_is_out_of_order(name: str) -> None:
    assert faults(run(name, short=True), name) == []


@pytest.mark.parametrize("rounds", [2, 3])
def test_philox_with_fewer_rounds_is_seen(monkeypatch: pytest.MonkeyPatch, rounds: int) -> None:
    monkeypatch.setattr("tribayes.posterior.counter._ROUNDS", rounds)
    for make in (sources.along_counters, sources.along_keys, sources.along_upper_seeds):
        assert min(bits.battery(make(2**17)).values()) < LEAST
    assert min(normals.battery(sources.kernels_normals(2**18)).values()) < LEAST


def test_four_rounds_are_seen_key_by_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tribayes.posterior.counter._ROUNDS", 4)
    assert min(bits.battery(sources.along_upper_seeds(2**17)).values()) < LEAST


def test_a_congruential_generator_is_seen_by_its_low_bits() -> None:
    words = [1]
    for _ in range(2**16):
        words.append((1664525 * words[-1] + 1013904223) % 2**32)
    found = bits.battery(np.array(words, dtype=np.uint32))
    assert found["gaps of low bits"] < LEAST
    assert found["runs of the lowest bit"] < LEAST


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("mean", lambda x: x + 0.02),
        ("variance", lambda x: 1.02 * x),
        ("third moment", lambda x: torch.where(x > 2, 1.1 * x, x)),
        ("fourth moment", lambda x: x.clamp(-3, 3)),
        ("Kolmogorov and Smirnov", lambda x: x + 0.02),
        ("runs of signs", lambda x: torch.cat([x[:-1].abs() * x[1:].sign(), x[:1]])[:100_000].repeat_interleave(2)),
        ("runs up and down", lambda x: x[1:] + 0.1 * x[:-1]),
        ("correlations", lambda x: x[16:] + 0.02 * x[:-16]),
        ("correlations of squares", lambda x: x[1:] * (1 + 0.05 * x[:-1].abs())),
        ("pairs", lambda x: torch.cat([x[::2], -x[::2]]).reshape(2, -1).T.flatten()),
        ("largest", lambda x: torch.cat([x, x.new_tensor([8.0])])),
    ],
)
def test_every_test_of_normals_sees_its_fault(name: str, change: object) -> None:
    whole = torch.randn(2**18, generator=Stream((2,)).generator(sources.CPU)).double()
    assert normals.battery(whole)[name] > LEAST
    assert normals.battery(change(whole))[name] < LEAST


def test_correlated_rows_are_seen() -> None:
    rows = sources.beside("samples", "cpu", 200, 1000)
    rows[3] += 0.3 * rows[77]
    assert normals.largest_correlation(rows) < LEAST


# what makes streams distinct on every device


def test_a_cpus_whole_state_begins_with_the_number_that_a_gpu_takes() -> None:
    """So a million distinct numbers (the trial "names") are a million distinct states."""
    for path in ((0,), (3, 1, 4), (-1, "draw", 2**70)):
        stream = Stream(path)
        words = stream.generator(sources.CPU).get_state()[24 : 24 + 16].view(torch.int64).tolist()
        first = int.from_bytes(b"".join(word.to_bytes(4, "little") for word in words), "big")
        assert first >> 1 == stream.number
        assert cuda.seed_number(stream) == stream.number % 2**62


def test_seeds_of_one_key_have_no_pair_of_words_in_common() -> None:
    """Philox is a bijection of (counter, upper half of the seed) under each key: other halves, other pairs."""
    upper, counters = torch.arange(300).repeat_interleave(300), torch.arange(300).repeat(300)
    left, right = philox((upper << 32) | 12345, counters)
    assert len(torch.unique(left << 32 | right)) == 90_000


# intervals


def test_intervals_of_an_exact_posterior_hold_the_truth_as_often_as_they_say() -> None:
    """Three levels of intervals of a function and of an observation: 200 repetitions, one failure in 10⁶ each."""
    found = coverage.conjugate(200, "mean_field", 150)
    assert min(each["p"] for each in found.values()) > 1e-6


def test_an_overconfident_network_is_seen_and_mended() -> None:
    found = coverage.conformal(60, 60)
    assert found["as trained, 0.95"]["p"] < LEAST
    assert min(found[f"conformal, {level:g}"]["p"] for level in coverage.LEVELS) > 1e-6


# what is stored


def test_faults_are_found_in_figures() -> None:
    found = {"CPU": {"count": 5, "p": {"bits": 1e-9, "bytes": 0.5}}, "names": {"tried": 10, "distinct": 9}}
    assert faults(found) == ["CPU, p, bits: 1.0e-09", "names: 1 streams are another's"]


def test_the_section_says_what_was_stored() -> None:
    text = section()
    assert "Of 1,000,000 (seed, sample, module) 1,000,000 have a stream of their own" in text
    assert "1,000,000,000 weights in one tensor" in text
