"""Figures that pages written by hand quote are those of the pages that programs write from stored results."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parent.parent.parent / "docs"
FIGURE = re.compile(r"\d+\.\d+|of \d+ comparisons|\d+ of \d+ paired runs")


def rows(page: str) -> list[list[str]]:
    """The cells of all tables of a page, without their heads."""
    lines = [line.strip("|") for line in (DOCS / page).read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def test_what_correlation_buys_is_what_was_measured() -> None:
    compared, source = 0, ""
    for _, measured, where in rows("understanding/what-it-buys.md"):
        if link := re.search(r"\]\(\.\./([\w-]+\.md)\)", where):
            source = (DOCS / link[1]).read_text()
        figures = FIGURE.findall(measured)
        assert [figure for figure in figures if figure not in source] == [], measured
        compared += len(figures)
    assert compared > 15


def test_where_the_correlation_was_worse_on_regressions_is_said() -> None:
    """Bold is beyond its interval; the difference is ours minus the diagonal one's, and smaller NLL is better."""
    name, *cells = next(row for row in rows("regressions.md") if row[0] == "ours, diagonal" and "[" in row[1])
    worse = [cell.strip("*") for cell in cells[::2] if cell.startswith("**+")]
    said = next(
        measured for question, measured, *_ in rows("understanding/what-it-buys.md") if "three small" in question
    )
    assert worse, f"{name}: the page says that it is worse on one"
    assert all(cell in said for cell in worse)
    likelihoods = next(row[1] for row in rows("understanding/what-it-buys.md") if "20 splits" in row[0])
    quoted = re.findall(r"\w+ [+−][\d.]+ \(−[\d.]+ to [+−][\d.]+\)", likelihoods)
    assert len(quoted) == 3
    source = (DOCS / "uci.md").read_text().partition("tridiagonal minus diagonal")[2].partition("\n")[0]
    assert [part for part in quoted if part not in source] == []


def test_the_guide_on_speed_has_the_times_of_a_step() -> None:
    """What a training step costs beside the plain network's, from the least to the most."""
    guide = (DOCS / "guides/speed.md").read_text()
    times: dict[str, list[float]] = {"H200": [], "CPU": []}
    for cells in rows("comparison.md"):
        if (machine := cells[0].split(",")[0]) in times:
            times[machine].append(float(cells[1].strip("*")))
    for machine, words in (("H200", "on an H200"), ("CPU", "on a CPU")):
        least, most = min(times[machine]), max(times[machine])
        assert f"{words} {least:.2f} to {most:.2f}" in " ".join(guide.split()), machine
