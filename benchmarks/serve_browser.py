"""How long a visitor waits: from the move of the pen in a real browser to the frame that shows the new answer.

The time begins with the browser's own stamp of the input and ends in the frame after the boxplots were drawn anew, so
it holds the page's work, the PNG of the pad, the request over the loopback, the server and the drawing of 200 dots a
class. Used by `python -m benchmarks.serve --browser`; needs chromium with its driver, and Selenium.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from time import monotonic, sleep

import uvicorn

from tribayes.serve.app import create_app
from tribayes.serve.subject import Subject

PATIENCE = 120.0  # seconds

_WARMING = 5  # moves that are not counted

_FLAGS = ("--no-sandbox", "--headless=new", "--disable-gpu", "--no-first-run", "--disable-background-networking")
_WATCH = """
const pad = document.getElementById("pad"), boxes = document.getElementById("boxes");
let since = null;
window.waits = [];
pad.addEventListener("pointermove", (event) => { since ??= event.timeStamp; }, true);
new MutationObserver(() => {
  if (since === null) return;
  const started = since;
  since = null;
  requestAnimationFrame(() => window.waits.push(performance.now() - started));
}).observe(boxes, { childList: true });
"""


def milliseconds(subject: Subject, times: int) -> list[float]:
    """Of `times` moves of a pen that is down, one after the other, each after the answer to the one before."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    with _listening(subject) as address, tempfile.TemporaryDirectory() as profile:
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
        try:
            driver.get(address)
            _wait(lambda: driver.execute_script("return document.documentElement.dataset.ready") == "true")
            driver.execute_script(_WATCH)
            pad = driver.find_element(By.ID, "pad")
            ActionChains(driver, duration=0).move_to_element_with_offset(pad, -60, -60).click_and_hold().perform()
            for number in range(_WARMING + times):
                row, place = divmod(number, 40)
                aside = 3 if row % 2 == 0 else -3  # to and fro over the pad, a little lower each time
                ActionChains(driver, duration=0).move_by_offset(aside if place else 0, 0 if place else 4).perform()
                _wait(lambda number=number: driver.execute_script("return window.waits.length") > number)
            waits: list[float] = driver.execute_script("return window.waits")
            return waits[_WARMING:]
        finally:
            driver.quit()


@contextmanager
def _listening(subject: Subject) -> Iterator[str]:
    """The server on a free port of this machine."""
    server = uvicorn.Server(uvicorn.Config(create_app(subject), port=0, log_config=None, access_log=False))
    thread = Thread(target=server.run)
    thread.start()
    try:
        _wait(lambda: server.started)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def _wait(holds: Callable[[], bool]) -> None:
    ends = monotonic() + PATIENCE
    while not holds():
        if monotonic() > ends:
            raise SystemExit("the page did not answer")
        sleep(0.02)
