"""What holds for every test."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from tests.offline import sitecustomize

if TYPE_CHECKING:
    from selenium.webdriver.remote.webdriver import WebDriver

OFFLINE = str(Path(sitecustomize.__file__).parent)

# The tests are small: a second thread gains nothing, and on a busy machine two that wait for each other lose minutes.
torch.set_num_threads(1)


os.environ.update(WANDB_MODE="offline", WANDB_ERROR_REPORTING="false")  # wandb reports its use from a thread of its own

# Processes that tests start, too, are refused the network.
os.environ["PYTHONPATH"] = os.pathsep.join([OFFLINE, *filter(None, [os.environ.get("PYTHONPATH")])])


# Random numbers that a test does not seed itself are the same every time, whichever tests its process had before.


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    _seed(0)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    _seed(1)  # not those of its fixtures


def _seed(number: int) -> None:
    torch.manual_seed(number)
    random.seed(number)


@pytest.fixture(scope="session")
def chromium() -> str:
    found = shutil.which("chromium")
    if found is None or shutil.which("chromedriver") is None:
        pytest.skip("no chromium with its driver is installed: apt-get install chromium chromium-driver")
    return found


@pytest.fixture(scope="session")
def browser(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    from tests.serve.browsing import a_browser

    with a_browser(chromium, tmp_path_factory.mktemp("profile")) as made:
        yield made
