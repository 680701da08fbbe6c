"""The measured parts of docs/estimators.md, docs/design.md, docs/serving.md and docs/playground.md are those
of the stored files."""

from __future__ import annotations

from pathlib import Path
from shutil import copy
from typing import Any

import pytest

from benchmarks import notes
from benchmarks.serve_page import load_text, speed_text
from benchmarks.store import RESULTS


def test_the_committed_pages_are_up_to_date() -> None:
    notes.main(["--check"])


def test_a_page_that_was_changed_is_named_and_written_again(tmp_path: Path) -> None:
    for name in ("estimators.md", "design.md", "serving.md", "playground.md"):
        copy(notes.DOCS / name, tmp_path)
    page = tmp_path / "design.md"
    before = page.read_text()
    page.write_text(before.replace("Kept, a step takes", "Kept, a step never takes"))
    words = ["--docs", str(tmp_path), "--results", str(RESULTS)]
    with pytest.raises(SystemExit, match=r"design\.md is not what the results say; run python -m benchmarks\.notes"):
        notes.main([*words, "--check"])
    notes.main(words)
    assert page.read_text() == before


def row(estimator: str, samples: int, variance: float, milliseconds: float | None) -> dict[str, Any]:
    numbers = {"nll": 0.1, "nll_error": 0.02, "variance": {"fc": variance, "scales": 1.0}}
    return {"estimator": estimator, "samples": samples, "milliseconds": milliseconds, **numbers}


def test_variances_and_times_are_relative_to_one_plain_draw() -> None:
    rows = [row("plain", 1, 4.0, 10.0), row("local", 2, 1.0, None)]
    lines = notes.variance_table({"subjects": [{"subject": "digits, run of 20 iterations", "rows": rows}]}).splitlines()
    assert lines[0] == "| after | estimator | samples | NLL | fc | all δ | time |"
    assert lines[2:] == [
        "| 20 iterations | plain | 1 | 0.1000 ± 0.0200 | 1.00 | 1.00 | 1.00 |",
        "| 20 iterations | local | 2 | 0.1000 ± 0.0200 | 0.25 | 1.00 | - |",
    ]


MACHINE = {"machine": {"name": "a CPU", "threads": 2, "torch": "2.13.0"}}


def test_what_a_server_was_measured_to_do_is_said_and_nothing_else() -> None:
    ways = {"server": {"p50_ms": 30.0, "p99_ms": 41.0}, "browser": {"p50_ms": 60.0, "p99_ms": 81.0}}
    pad = {"run": "digits", "images": 360, "drawn": 0.95, "plain": 0.955}
    said = speed_text({**MACHINE, "figures": {"digits": ways, "pad": [pad]}})
    assert said.startswith("On a CPU, 2 threads, torch 2.13.0:\n\n| network |")
    assert "| the digits' network, 8×8 | in the server | 30 | 41 |" in said
    assert "Of the 360 test images of `digits` 95.00 % are right through the pad, and 95.50 % without it." in said
    load = {"clients": 8, "requests": 5000, "requests_per_second": 83.3, "p50_ms": 90.0, "p99_ms": 140.0}
    held = {"requests": 100000, "clients": 8, "megabytes": [500.0, 510.0, 512.0, 511.0], "errors": 0, "changed": 0}
    said = load_text({**MACHINE, "figures": {"loads": [load | {"errors": 0, "changed": 0}], "memory": held}})
    assert "| 8 | 5,000 | 83 | 90 | 140 | 0 | 0 |" in said
    assert "held 500 MB at the start, 510 after a twentieth of them, 511 at the end and 512 at most" in said
    assert speed_text(None) == ""
    assert load_text(None).startswith("Under load it has not been measured yet")


def moments(subject: str, agree: float, seconds: float) -> dict[str, Any]:
    shares = {"label": agree, "certain": agree, "too_sure": 1 - agree}
    errors = {"mean": 0.001, "largest_mean": 0.02, "std": 0.1, "std_ratio": 0.9, **shares}
    return {"subject": subject, "errors": {"moments": errors}, "half": errors, "seconds": {"moments": seconds}}


def test_runs_of_one_experiment_are_counted() -> None:
    stored = {"results": [moments("digits, a", 1.0, 2.0), moments("digits, b", 0.9, 3.0), moments("other", 1.0, 4.0)]}
    assert notes.moments_table(stored).splitlines()[2:] == [
        "| digits, run 1 | moments | 0.00100 | 0.020 | 10.0 % | 0.900 | 100.0 % | 100.0 % | 0.0 % | 2 |",
        "| digits, run 2 | moments | 0.00100 | 0.020 | 10.0 % | 0.900 | 90.0 % | 90.0 % | 10.0 % | 3 |",
        "| other | moments | 0.00100 | 0.020 | 10.0 % | 0.900 | 100.0 % | 100.0 % | 0.0 % | 4 |",
    ]
    assert "For every network 90.0 % or more of the labels agree" in notes.half_sentence(stored)


def test_ways_to_ask_an_ensemble_are_relative_to_one_network() -> None:
    timings = [
        {"name": "plain", "seconds": [0.01, 0.02, 0.03], "ratio": [1.0, 1.0, 1.0]},
        {"name": "ours", "seconds": [0.02, 0.031, 0.04], "ratio": [1.4, 1.5, 1.6]},
    ]
    assert notes.ensemble_table({"figures": {"LeNet": {"timings": timings}}}).splitlines()[2:] == [
        "| LeNet | plain | 20 | 1 (1–1) |",
        "| LeNet | ours | 31 | 1.5 (1.4–1.6) |",
    ]
