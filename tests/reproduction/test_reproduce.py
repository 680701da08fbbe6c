"""Suites of runs: what belongs to them, what is done, what is not done again, and what is said first."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from reproduction.paper.trials import TRIALS
from reproduction.results.result_files import Results, read_result
from reproduction.training.reproduce import Place, estimate, reproduce
from reproduction.training.suites import SUITES, Entry, entries_of, pending
from tests.recipes.small import tribayes
from tests.reproduction.command import reproduction
from tribayes.recipes.experiments import EXPERIMENTS


def place(folder: Path) -> Place:
    return Place(folder / "runs", folder / "results", torch.device("cpu"))


def test_all_is_every_experiment_with_every_seed_and_every_trial() -> None:
    entries = entries_of("all", 3)
    experiments = [entry for entry in entries if not entry.name.startswith("trials/")]
    assert {(entry.name, entry.seed) for entry in experiments} == {(n, s) for n in EXPERIMENTS for s in range(3)}
    assert [entry.name for entry in entries if entry not in experiments] == [f"trials/{t.name}" for t in TRIALS]
    parts = [entry for suite in SUITES if suite != "all" for entry in entries_of(suite, 3)]
    assert {entry.path for entry in parts} == {entry.path for entry in entries}
    assert len(parts) == len(entries)


def test_trials_are_judged_on_held_out_images_alone() -> None:
    assert all(trial.setting.validation > 0 for trial in TRIALS)
    assert len({trial.name for trial in TRIALS}) == len(TRIALS)


def test_runs_are_made_side_by_side_and_only_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = place(tmp_path)
    entries = [entry for entry in entries_of("digits", 2, 20) if entry.name in ("digits", "digits-frequentist")]
    reproduce(pending(entries, here.results), here, side_by_side=3)
    said = capsys.readouterr().out
    assert "[1/2] digits-frequentist (seed 0), digits-frequentist (seed 1), digits (seed 0)" in said
    assert "[2/2] digits (seed 1)" in said
    found = Results.read(here.results)
    assert {(result.experiment, result.seed) for result in found} == {(entry.name, entry.seed) for entry in entries}
    assert all(result.setting.iterations == 20 for result in found)
    assert pending(entries, here.results) == []
    longer = entries_of("digits", 1, 30)
    assert pending(longer, here.results) == longer  # results of another setting do not count


def test_a_neighbour_does_not_change_a_result(tmp_path: Path) -> None:
    entries = [entry for entry in entries_of("digits", 2, 20) if entry.name == "digits"]
    together, alone = place(tmp_path / "a"), place(tmp_path / "b")
    reproduce(entries, together, side_by_side=2)
    reproduce(entries[1:], alone, side_by_side=1)
    ours, theirs = (read_result(at.results / entries[1].path) for at in (together, alone))
    assert ours.evaluation == theirs.evaluation
    assert ours.curve == theirs.curve


def test_a_trained_run_without_a_result_is_only_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = place(tmp_path)
    (entry,) = (entry for entry in entries_of("digits", 1, 20) if entry.name == "digits")
    reproduce([entry], here, side_by_side=1)
    path = here.results / entry.path
    before = read_result(path)
    path.unlink()
    capsys.readouterr()
    reproduce([entry], here, side_by_side=1)
    assert "of 20" not in capsys.readouterr().out  # no training was shown
    assert read_result(path) == before


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    here = place(tmp_path)
    (entry,) = (entry for entry in entries_of("digits", 1, 20) if entry.name == "digits")
    reproduce([entry], here, side_by_side=1)
    other = Entry(entry.name, entry.setting.changed(kappa=1.0), entry.seed)
    with pytest.raises(ValueError, match="hold a run of the same setting and seed"):
        reproduce([other], here, side_by_side=1)


def test_the_estimate_counts_every_run(tmp_path: Path) -> None:
    entries = [entry for entry in entries_of("digits", 3) if entry.name == "digits"]
    lines = estimate(entries, place(tmp_path), steps=2).splitlines()
    assert lines[2].split()[:3] == ["digits", "3", "2,000"]
    assert lines[-1].startswith("Training will take about ")


def test_the_command_estimates_trains_and_says_what_is_next(tmp_path: Path) -> None:
    words = ("reproduce", "digits", "--seeds", 1, "--iterations", 10, "--threads", 1)
    folders = ("--runs", tmp_path / "runs", "--results", tmp_path / "results")
    first = reproduction(*words, *folders)
    assert first.code == 0, first.err
    assert "Training will take about" in first.out
    assert len(list((tmp_path / "results").rglob("*.json"))) == 4
    again = reproduction(*words, *folders)
    assert again.out.strip().startswith("All results of digits are in")


def test_an_unknown_suite_is_refused() -> None:
    answer = reproduction("reproduce", "imagenet")
    assert answer.code == 1
    assert "`SUITE`" in answer.err
    assert "digits, mnist, fashion, cifar10, all, trials" in answer.err


@pytest.mark.parametrize("words", [("reproduce", "all", "--seeds", 3), ("reproduce",), ("results", "--check")])
def test_the_installed_command_says_where_it_is_done(words: tuple[object, ...]) -> None:
    answer = tribayes(*words)
    assert answer.code == 1
    assert answer.out == ""
    assert answer.err.startswith("error: the paper's experiments are made where their results are kept: clone the")
    assert f"`python -m reproduction {words[0]}" in answer.err
    assert f"or `make {words[0]}`." in answer.err


def test_a_start_that_was_cut_short_is_made_good(tmp_path: Path) -> None:
    here = place(tmp_path)
    (entry,) = (entry for entry in entries_of("digits", 1, 20) if entry.name == "digits")
    folder = here.runs / "digits" / "seed-0"
    folder.mkdir(parents=True)
    (folder / "environment.json").write_text("{}")
    reproduce([entry], here, side_by_side=1)
    assert read_result(here.results / entry.path).seed == 0
