"""docs/modern.md says what the kept runs say."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from benchmarks.modern.__main__ import PAGE, main
from benchmarks.modern.document import document, readme_block
from benchmarks.modern.keeping import kept


def test_the_page_is_what_the_results_say() -> None:
    main(["page", "--check"])


def test_another_figure_makes_another_page() -> None:
    found = kept()
    changed = copy.deepcopy(found)
    for runs in changed.runs.values():
        for record in runs.values():
            record["test"]["nll"] += 1
    assert document(changed) != PAGE.read_text() == document(found)


def test_a_difference_in_every_seed_is_called_by_its_name() -> None:
    better = kept()
    for cell, runs in better.runs.items():
        for seed, record in runs.items():
            record["test"]["error"] = 0.05 + 0.001 * seed - (0 if "plain" in cell else 0.02)
    page = document(better)
    line = next(line for line in page.splitlines() if line.startswith("- better"))
    assert "error % -2.00 [-2.00, -2.00]" in line


def test_readme_says_what_is_better_what_is_not_and_what_it_costs() -> None:
    changed = kept()
    for cell, runs in changed.runs.items():
        for seed, record in runs.items():
            plain = "plain" in cell
            record["test"]["error"] = 0.05 + 0.001 * seed + (0 if plain else 0.02)
            record["test"]["nll"] = 0.2 + 0.001 * seed - (0 if plain else 0.02)
            record["seconds"]["train"] = 10.0 if plain else 12.5
    block = readme_block(changed)
    better, worse = (block.partition(f"{kind}: ")[2].partition(".")[0] for kind in ("Better", "Worse"))
    assert "NLL" in better.split("; ")
    assert worse == "error %"
    assert "Training took 1.25 × the plain network's time." in block


def test_an_old_readme_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("<!-- modern:start -->\nold\n<!-- modern:end -->")
    monkeypatch.setattr("benchmarks.modern.__main__.README", tmp_path / "README.md")
    with pytest.raises(SystemExit, match=r"README\.md is not what the results say"):
        main(["page", "--check"])


def test_an_old_page_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "modern.md").write_text("something else")
    monkeypatch.setattr("benchmarks.modern.__main__.PAGE", tmp_path / "modern.md")
    with pytest.raises(SystemExit, match=r"modern\.md is not what the results say"):
        main(["page", "--check"])
