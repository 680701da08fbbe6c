"""The manual: it is built with every warning an error, asks no other host for anything, and has every public name."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys
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
FIGURES = ("covariance", "moving-average", "convolution")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole manual; links, anchors and pages that are in no menu are checked by mkdocs itself."""
    pytest.importorskip("material", reason="the manual is made by mkdocs-material: pip install 'tribayes[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


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
            room = importlib.import_module(module)
            documented = (getattr(room, last).__doc__ or "") if callable(getattr(room, last)) else ""
            assert (">>>" in documented) <= ("&gt;&gt;&gt;" in text[start:end]), name


def test_every_movable_figure_has_a_picture_in_its_place(site: Path) -> None:
    page = (site / "understanding/correlated-weights.html").read_text()
    figures = re.findall(r'<figure data-figure="([\w-]+)"[^>]*>\s*<img alt="([^"]+)" src="([^"]+)"', page)
    assert tuple(name for name, _, _ in figures) == FIGURES
    assert all(len(words) > 30 for _, words, _ in figures)  # for those who do not see it
    script = (ROOT / "docs/javascripts/figures.js").read_text()
    table = script[script.rindex("const figures") :]
    assert all(name in table for name in FIGURES)
    assert "http" not in script.replace("http://www.w3.org/2000/svg", "")
