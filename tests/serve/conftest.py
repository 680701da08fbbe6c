"""A small trained run, served in this process or in one of its own, and a browser to look at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("fastapi", reason="the page is served with FastAPI, an extra")
pytest.importorskip("uvicorn", reason="the page is served with uvicorn, an extra")
pytest.importorskip("sklearn", reason="the digits are scikit-learn's")

from fastapi.testclient import TestClient

from tests.recipes.small import session
from tests.serve.serving import Served, client_of, serving
from tribayes.recipes.recipe_run import RecipeRun
from tribayes.runs import train_sessions
from tribayes.serve.subject import Subject

if TYPE_CHECKING:
    from selenium.webdriver.remote.webdriver import WebDriver


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits, half learned: some images are doubtful."""
    folder = tmp_path_factory.mktemp("serve") / "run"
    train_sessions([session(folder, iterations=400)], progress=False)
    return folder


@pytest.fixture(scope="session")
def subject(run: Path) -> Subject:
    made = Subject(RecipeRun.open(run), samples=50)
    made.draw()
    return made


@pytest.fixture
def client(subject: Subject) -> Iterator[TestClient]:
    with client_of(subject) as made:
        yield made


@pytest.fixture(scope="session")
def served(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """`tribayes serve`, as a process that writes down every connection it makes."""
    with serving(run, tmp_path_factory.mktemp("served")) as made:
        yield made


@pytest.fixture
def picture(browser: WebDriver, tmp_path: Path) -> Callable[[str], None]:
    """Take a screenshot of the whole page and keep it under a name."""
    from tests.serve.browsing import photograph

    return lambda name: photograph(browser, tmp_path, name)
