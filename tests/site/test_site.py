"""The manual: it is built with every warning an error, asks no other host for anything, and has every public name."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

import tribayes

ROOT = Path(__file__).parent.parent.parent
ROOMS = [
    "tribayes",
    *(f"tribayes.{path.parent.name}" for path in sorted((ROOT / "src/tribayes").glob("*/__init__.py"))),
]
LOADING = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data"}
MARKUP = re.compile(r"^\s*- |^\s*\|.*\| *--|\*\*|\]\(|```")
NEITHER = {"pre", "code", "script", "style", "svg"}
FIGURES = ("covariance", "moving-average", "convolution")


class Loads(HTMLParser):
    """What a page fetches by itself, whether someone clicks or not."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "link" and named.get("rel") in {"canonical", "prev", "next", "alternate"}:
            return  # read by search engines, fetched by nobody
        if tag in LOADING and (address := named.get(LOADING[tag])):
            self.found.append(address)


class Words(HTMLParser):
    """The lines of a page that are neither code nor a picture."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[str] = []
        self._inside: list[str] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if tag in NEITHER:
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in NEITHER:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.found += data.splitlines()


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        outside = [address for address in Loads(page).found if re.match(r"(https?:)?//", address)]
        assert outside == [], page.name


def test_no_style_loads_anything_from_another_host(site: Path) -> None:
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )['\"]?(https?:)?//", style.read_text()), style.name


def test_what_pages_load_is_there(site: Path) -> None:
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue  # its addresses begin at the root of the host
        for address in Loads(page).found:
            path = address.split("#")[0].split("?")[0]
            assert path.startswith("data:") or (page.parent / path).exists(), f"{page.name}: {address}"


def test_search_knows_the_pages(site: Path) -> None:
    index = (site / "search/search_index.json").read_text()
    assert all(name in index for name in ("five-minutes.html", "guides/troubleshooting.html", "TridiagonalNormal"))


def test_the_reference_has_every_public_name(site: Path) -> None:
    pages = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    headings = [name.split(".") for name in re.findall(r'<h\d id="(tribayes\.[\w.]+)"', pages)]
    shown = {parts[-1] for parts in headings if parts[-2].islower()}  # in a module: not a method of the same name
    for room in ROOMS:
        public = importlib.import_module(room)
        names = [name for name in getattr(public, "__all__", []) if not inspect.ismodule(getattr(public, name))]
        assert [name for name in names if name not in shown] == [], room
    assert set(tribayes.metrics.__all__) <= shown


def test_the_reference_shows_every_example(site: Path) -> None:
    """And with it the text before: what a docstring has must not be lost by an option of the page."""
    for page in (site / "reference").glob("*.html"):
        text = page.read_text()
        headings = [(found.start(), found[1]) for found in re.finditer(r'<h\d id="(tribayes\.[\w.]+)"', text)]
        for (start, name), (end, _) in pairwise([*headings, (len(text), "")]):
            module, _, last = name.rpartition(".")
            if not module.rpartition(".")[2].islower():
                continue  # a method
            if module.startswith("tribayes.integrations."):
                continue  # below: it needs the library it is named after
            room = importlib.import_module(module)
            documented = (getattr(room, last).__doc__ or "") if callable(getattr(room, last)) else ""
            assert (">>>" in documented) <= ("&gt;&gt;&gt;" in text[start:end]), name


@pytest.mark.parametrize("module", ["lightning", "transformers", "logging"])
def test_the_reference_has_the_tools_of_others(site: Path, module: str) -> None:
    page = (site / "reference/integrations.html").read_text()
    classes = ast.parse((ROOT / f"src/tribayes/integrations/{module}.py").read_text()).body
    public = [each for each in classes if isinstance(each, ast.ClassDef) and not each.name.startswith("_")]
    assert public
    for each in public:
        _, heading, shown = page.partition(f'id="tribayes.integrations.{module}.{each.name}"')
        assert heading, each.name
        assert (">>>" in (ast.get_docstring(each) or "")) <= ("&gt;&gt;&gt;" in shown), each.name


def test_the_page_on_what_may_change_names_every_room(site: Path) -> None:
    page = (site / "stability.html").read_text()
    public = [room for room in ROOMS if getattr(importlib.import_module(room), "__all__", [])]
    assert [room for room in public if f"<code>{room.removeprefix('tribayes.')}</code>" not in page] == []


def test_no_page_shows_its_markup(site: Path) -> None:
    """What one reader of Markdown takes for a list or a table, another takes for words with signs in them."""
    for page in site.rglob("*.html"):
        assert [line for line in Words(page).found if MARKUP.search(line)] == [], page.name


def test_formulas_are_set(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text()
        shown = [*Words(page).found, *re.findall(r'<div class="[^"]*formula".*?</div>', text, re.DOTALL)]
        assert [line for line in shown if re.search(r"[_^]\{|[α-ω]_\w", line)] == [], page.name
    assert "ε<sub>i</sub> = (x<sub>i</sub> + t x<sub>i−1</sub>)" in (site / "law.html").read_text()


def test_what_a_docstring_lists_is_shown_item_by_item(site: Path) -> None:
    """`before, after: words` was a thing `before,` of type `after`, and a second line of Returns a second thing."""
    for page in (site / "reference").glob("*.html"):
        text = page.read_text()
        names = re.findall(r"<b><code>(?:<span[^>]*>)?([^<]*)", text)
        assert [name for name in names if name.endswith(",")] == [], page.name
        for returned in re.findall(r"Returns:</span></p>\s*<ul>(.*?)</ul>", text, re.DOTALL):
            assert returned.count("<li") == 1, returned


def test_a_page_of_the_reference_begins_with_what_it_is_about(site: Path) -> None:
    """A room's own words below its first function would seem to be about that function."""
    for room in ROOMS:
        words = (importlib.import_module(room).__doc__ or "").partition("\n")[0]
        page = site / f"reference/{room.rpartition('.')[2]}.html"
        if page.exists():
            assert words[:20] not in page.read_text().partition("doc-heading")[2], room


def test_every_movable_figure_has_a_picture_in_its_place(site: Path) -> None:
    page = (site / "understanding/correlated-weights.html").read_text()
    figures = re.findall(r'<figure data-figure="([\w-]+)"[^>]*>\s*<img alt="([^"]+)" src="([^"]+)"', page)
    assert tuple(name for name, _, _ in figures) == FIGURES
    assert all(len(words) > 30 for _, words, _ in figures)  # for those who do not see it
    script = (ROOT / "docs/javascripts/figures.js").read_text()
    table = script[script.rindex("const figures") :]
    assert all(name in table for name in FIGURES)
    assert "http" not in script.replace("http://www.w3.org/2000/svg", "")
