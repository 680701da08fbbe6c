"""A page holds what it is given, escaped, in one file, written whole or not at all."""

import base64
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from tribayes.plots.style import drawn
from tribayes.report import Report, Section


class Outline(HTMLParser):
    """Checks that tags are closed in order, and collects tags, attributes and text."""

    VOID = frozenset({"meta", "img"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def assert_self_contained(page: str) -> None:
    """Nothing is fetched: no addresses but data inside the page, no scripts, no style from elsewhere."""
    outline = Outline(page)
    assert not {"script", "link", "iframe", "object", "embed", "a"} & set(outline.tags)
    for name, value in outline.attributes:
        assert name not in ("href", "srcset", "style", "onload", "onclick")
        assert name != "src" or (value or "").startswith("data:image/")
    assert "://" not in page
    assert "@import" not in page
    assert "url(" not in page


def simple_figure(points: int = 5) -> Figure:
    return drawn(lambda ax: ax.plot(np.random.default_rng(0).normal(size=points)), 3, 2)


def test_a_page_holds_what_it_was_given() -> None:
    page = Report("Title", "The lead.", "The foot.")
    section = page.section("Numbers").text("A paragraph.").definitions({"level": "a share"})
    section.table(["name", "count", "value"], [["a", 1200, 0.5], ["b", -3, None]], caption="A table")
    section.picture(simple_figure(), "a line", "It goes up and down.")
    html = page.html()
    assert_self_contained(html)
    assert html.count("<title>Title</title>") == 1
    text = "".join(Outline(html).text)
    for part in ("The lead.", "The foot.", "Numbers", "A paragraph.", "level", "a share", "A table", "1,200", "0.50"):
        assert part in text
    assert "−3" in text
    assert 'alt="a line"' in html
    assert "<figcaption>It goes up and down.</figcaption>" in html


def test_it_is_made_for_phones_and_for_light_and_dark() -> None:
    html = Report("t").html()
    assert html.startswith("<!DOCTYPE html>")
    assert '<html lang="en">' in html
    assert '<meta charset="utf-8">' in html
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in html
    assert "prefers-color-scheme: dark" in html


def test_everything_is_escaped() -> None:
    bad = "<script>alert('x')</script>\" onload=\"y & z"
    page = Report(bad, bad, bad)
    section = page.section(bad).text(bad).definitions({bad: bad}).table([bad], [[bad]], caption=bad)
    section.picture(simple_figure(), bad, bad)
    html = page.html()
    assert_self_contained(html)
    assert "<script" not in html
    assert "".join(Outline(html).text).count("alert('x')") == 12


def test_a_table_says_what_its_cells_are() -> None:
    rows = [
        '<thead><tr><th scope="col">name</th><th scope="col" class="number">K</th></tr></thead>',
        "<tbody>",
        '<tr><th scope="row">weight</th><td class="number">1,200</td></tr>',
        "</tbody>",
    ]
    table = "\n".join(['<div class="wide"><table>', *rows, "</table></div>"])
    assert table in Section("s").table(["name", "K"], [["weight", 1200]]).html()


def test_numbers_stand_to_the_right_with_equal_decimals() -> None:
    html = Report("t")
    html.section("s").table(["tensor", "K", "rho"], [["w", 4608, -0.3324], ["b", 32, 0.0062], ["c", 1, 0.0]])
    cells = re.findall(r'<td class="number">([^<]*)</td>', html.html())
    assert cells == ["4,608", "−0.3324", "32", "0.0062", "1", "0.0000"]
    assert html.html().count('<th scope="row">') == 3


def test_numbers_that_are_not_finite_are_shown_as_they_are() -> None:
    page = Report("t")
    page.section("s").table(["name", "rho"], [["a", float("nan")], ["b", float("-inf")], ["c", 0.25]])
    assert re.findall(r'<td class="number">([^<]*)</td>', page.html()) == ["nan", "−inf", "0.25"]


def test_a_percent_sign_stays_with_its_number() -> None:
    page = Report("t")
    page.section("s").table(["level"], [["95 %"]])
    assert "95\u00a0%" in page.html()


def test_pictures_in_a_row_share_a_grid() -> None:
    page = Report("t")
    section = page.section("s").text("before")
    for _ in range(3):
        section.picture(simple_figure(), "a", "b")
    section.text("after").picture(simple_figure(), "a", "b")
    html = page.html()
    assert html.count('<div class="beside three">') == 1
    assert html.count('<div class="beside">') == 1
    assert html.index("before") < html.index('beside three">') < html.index("after") < html.index('beside">')


def test_a_simple_picture_is_drawn_in_vectors_and_a_crowded_one_in_pixels() -> None:
    simple, crowded = (Section("s").picture(simple_figure(points), "a", "b").html() for points in (5, 20_000))
    assert "data:image/svg+xml;base64," in simple
    assert "data:image/png;base64," in crowded
    assert max(len(simple), len(crowded)) < 150_000
    assert 'width="288" height="192"' in simple
    data = re.findall(r'base64,([^"]*)"', crowded)[0]
    assert base64.b64decode(data).startswith(b"\x89PNG")


def test_a_report_of_the_same_is_the_same() -> None:
    one, other = (Section("s").picture(simple_figure(), "a", "b").html() for _ in range(2))
    assert one == other


def test_the_folder_is_made_and_the_path_returned(tmp_path: Path) -> None:
    path = Report("Grüße").write(str(tmp_path / "new" / "deep" / "report.html"))
    assert path == tmp_path / "new" / "deep" / "report.html"
    assert "Grüße" in path.read_text(encoding="utf-8")
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]


def test_the_file_can_be_read_by_others_as_any_new_file(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.touch()
    assert Report("t").write(tmp_path / "report.html").stat().st_mode == other.stat().st_mode


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = Report("old").write(tmp_path / "report.html")
    before = path.read_text()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match=r"report\.html could not be written: No space left on device; free some space"):
        Report("new").write(path)
    monkeypatch.undo()
    assert path.read_text() == before
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_an_impossible_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match=r"/file could not be written: File exists; .* or choose another folder"):
        Report("t").write(tmp_path / "file" / "report.html")
    with pytest.raises(ValueError, match=r"`path` .* must be a file, not a folder; add a name, such as report.html"):
        Report("t").write(tmp_path)


def test_bad_pieces_are_refused_by_name() -> None:
    section = Report("t").section("s")
    with pytest.raises(ValueError, match=r"`rows\[1\]` .* must have 2 cells, as the header has"):
        section.table(["a", "b"], [[1, 2], [1]])
    with pytest.raises(TypeError, match=r"`figure` \(='Axes'\) must be a matplotlib Figure; pass ax.figure"):
        section.picture(simple_figure().axes[0], "a", "b")
