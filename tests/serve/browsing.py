"""A real browser before the page, and what a visitor does with it. To be imported where there is Selenium."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.common import exceptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.remote.webelement import WebElement

from tests.patience import PATIENCE
from tests.serve import serving

FLAGS = ["--no-sandbox", "--headless=new", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--hide-scrollbars"]
FLAGS += ["--disable-dev-shm-usage"]  # in a container that is small, and a page of many pixels crashes
PICTURES = os.environ.get("TRIBAYES_SCREENSHOTS")  # a folder; else they go to pytest's
STARTS = 3  # of a browser: on a busy machine one may take longer than its driver waits
NOT_YET = (  # what a look or a click meets while the page is just replacing or moving what was meant
    exceptions.StaleElementReferenceException,
    exceptions.NoSuchElementException,
    exceptions.ElementClickInterceptedException,
    exceptions.ElementNotInteractableException,
)
FRAMES = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"


@contextlib.contextmanager
def a_browser(chromium: str, profile: Path) -> Iterator[WebDriver]:
    driver = _started(chromium, profile)
    driver.set_script_timeout(PATIENCE)
    try:
        yield driver
    finally:
        driver.quit()


def _started(chromium: str, profile: Path) -> WebDriver:
    for number in range(1, STARTS):
        with contextlib.suppress(exceptions.WebDriverException):
            return _start(chromium, profile / str(number))
    return _start(chromium, profile / str(STARTS))


def _start(chromium: str, profile: Path) -> WebDriver:
    """With a profile of its own, which what did not start cannot still hold."""
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in [*FLAGS, f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    return webdriver.Chrome(options, Service(shutil.which("chromedriver")))


def opened(browser: WebDriver, address: str) -> WebDriver:
    """The page, freshly opened on a laptop, light, and as nobody has chosen anything yet."""
    seen(browser, 1280, 900)
    browser.get(address)
    if browser.execute_script("const chosen = localStorage.length > 0; localStorage.clear(); return chosen"):
        browser.refresh()
    until(lambda: browser.execute_script("return document.documentElement.dataset.ready") == "true")
    return browser


def photograph(browser: WebDriver, folder: Path, name: str) -> None:
    """A screenshot of the whole page."""
    folder = Path(PICTURES) if PICTURES else folder
    folder.mkdir(parents=True, exist_ok=True)
    high = browser.execute_script("return document.documentElement.scrollHeight")
    wide = browser.execute_script("return window.innerWidth")
    _sized(browser, wide, high)
    assert browser.save_screenshot(str(folder / f"{name}.png"))


def seen(browser: WebDriver, width: int, height: int, dark: bool = False) -> None:
    """Show pages on a screen of this size, by a system that is light or dark."""
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    _sized(browser, width, height)


def _sized(browser: WebDriver, width: int, height: int) -> None:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_async_script(FRAMES)  # a page hears of its size with its next frame, and only then moves its parts


def touch(browser: WebDriver, kind: str, *fingers: tuple[float, float]) -> None:
    """What fingers do to a phone: "Start", "Move" or "End", and where those are that touch it then."""
    points = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(fingers)]
    browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": points})


def until(holds: Callable[[], Any]) -> Any:
    """Wait for something that becomes true; a look at what the page is just replacing counts as not yet."""

    def looked() -> Any:
        with contextlib.suppress(*NOT_YET):
            return holds()
        return None

    return serving.until(looked)


def press(browser: WebDriver, selector: str) -> None:
    """Click the first of these once it is there, and can be clicked: a click that was refused was none."""

    def pressed() -> bool:
        browser.find_element(By.CSS_SELECTOR, selector).click()
        return True

    until(pressed)


def settled(browser: WebDriver) -> None:
    """Wait until the page has the answer to all that it was told so far, be it one that says no."""
    until(lambda: browser.execute_script("return document.querySelector('#panel-draw').ariaBusy") == "false")


def the(browser: WebDriver, name: str) -> WebElement:
    return browser.find_element(By.ID, name)


def verdict(browser: WebDriver) -> str:
    return the(browser, "verdict").text


def focused(browser: WebDriver) -> str:
    name: str = browser.execute_script("return document.activeElement.id")
    return name


def slide(browser: WebDriver, selector: str, value: float) -> None:
    """Move a slider as a hand would end it: the value, then the event."""
    script = (
        "const s = document.querySelector(arguments[0]); s.value = arguments[1]; s.dispatchEvent(new Event('input'))"
    )
    browser.execute_script(script, selector, value)
