"""A small trained run, served in this process or in one of its own, and a browser to look at it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the page is served with FastAPI, an extra")
pytest.importorskip("uvicorn", reason="the page is served with uvicorn, an extra")
pytest.importorskip("sklearn", reason="the digits are scikit-learn's")

from fastapi.testclient import TestClient

from tests.recipes.small import session
from tests.serve.serving import Served, client_of
from tribayes.recipes.recipe_run import RecipeRun
from tribayes.runs import train_sessions
from tribayes.serve.subject import Subject


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
    watched = tmp_path_factory.mktemp("served") / "connections"
    watched.touch()
    words = [sys.executable, "-m", "tests.serve.watched", str(watched), "serve", str(run), "--port", "0"]
    process = subprocess.Popen(
        [*words, "--threads", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    assert process.stdout is not None
    said = ""
    while not (found := re.search(r"http://\S+?:\d+", said)):
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        said += line
    made = Served(found[0], process, watched)
    yield made
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)


@pytest.fixture(scope="session")
def chromium() -> str:
    found = shutil.which("chromium")
    if found is None or shutil.which("chromedriver") is None:
        pytest.skip("no chromium with its driver is installed: apt-get install chromium chromium-driver")
    return found
