"""The manual as a reader meets it, in a real browser: what moves, what fits on a phone, light and dark."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("selenium.webdriver", reason="the browser is driven by Selenium, of the extra dev")
pytest.importorskip("fastapi", reason="the browser's helpers are those of the tests of the server")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.remote.webelement import WebElement

from tests.serve.browsing import photograph, press, seen, until
from tests.site.test_site import FIGURES

SWITCH = "label[for^=__palette]:not([hidden])"  # the one that is shown, of light, dark and as the system has it
PHONE, LAPTOP = (375, 800), (1280, 900)
MOVABLE = "understanding/correlated-weights.html"

# What sticks out of the page, and of nothing that scrolls by itself
STICKS_OUT = """
const scrolls = (e) => e && (["auto", "scroll"].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
return [...document.querySelectorAll("article *")]
  .filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !scrolls(e.parentElement))
  .map((e) => e.outerHTML.slice(0, 100));
"""


def visit(browser: WebDriver, page: str) -> None:
    browser.get(page)
    browser.execute_script("localStorage.clear()")
    browser.refresh()


def figure(browser: WebDriver, name: str) -> WebElement:
    return browser.find_element(By.CSS_SELECTOR, f"figure[data-figure='{name}']")


def drawn(browser: WebDriver, name: str) -> tuple[str, str, str]:
    """The drawing, what is said of it to those who do not see it, and the sentence below."""
    svg = figure(browser, name).find_element(By.TAG_NAME, "svg")
    words = figure(browser, name).find_element(By.CLASS_NAME, "fig-said").text
    return svg.get_attribute("innerHTML") or "", svg.get_attribute("aria-label") or "", words


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_moves_by_keys(browser: WebDriver, address: str, name: str) -> None:
    seen(browser, *LAPTOP)
    visit(browser, f"{address}/{MOVABLE}")
    for control in figure(browser, name).find_elements(By.CSS_SELECTOR, "input, button"):
        before = drawn(browser, name)
        control.send_keys(Keys.ENTER if control.tag_name == "button" else Keys.ARROW_LEFT * 3 + Keys.ARROW_RIGHT * 9)
        until(lambda before=before: drawn(browser, name)[0] != before[0])
        after = drawn(browser, name)
        assert after[1] == after[2] != "", "what is read aloud is what is read"
        assert control.tag_name == "button" or after[1] != before[1]


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_moves_by_touch_on_a_phone(browser: WebDriver, address: str, name: str) -> None:
    seen(browser, *PHONE)
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    try:
        visit(browser, f"{address}/{MOVABLE}")
        slider = figure(browser, name).find_element(By.TAG_NAME, "input")
        browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", slider)
        before = drawn(browser, name)
        box = browser.execute_script("return arguments[0].getBoundingClientRect().toJSON()", slider)
        where = {"x": box["x"] + 12, "y": box["y"] + box["height"] / 2}
        browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [where]})
        browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        until(lambda: drawn(browser, name)[0] != before[0])
        assert "ρ = −" in drawn(browser, name)[1]  # the finger was at the left end
    finally:
        browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def test_no_page_is_wider_than_a_phone(browser: WebDriver, site: Path, address: str, tmp_path: Path) -> None:
    seen(browser, *PHONE)
    for page in sorted(site.rglob("*.html")):
        name = str(page.relative_to(site))
        browser.get(f"{address}/{name}")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= PHONE[0], name
        assert browser.execute_script(STICKS_OUT) == [], name
    photograph(browser, tmp_path, "manual-phone")


def test_the_first_picture_is_large_enough_to_read(browser: WebDriver, address: str) -> None:
    shape = "const r = document.querySelector('article img').getBoundingClientRect(); return r.width / r.height"
    for size, least, most in ((LAPTOP, 3, 4), (PHONE, 0.7, 1)):  # side by side, or one above the other
        seen(browser, *size)
        browser.get(f"{address}/index.html")
        until(lambda least=least, most=most: least < browser.execute_script(shape) < most)


def test_buttons_can_be_read_in_the_dark(browser: WebDriver, address: str) -> None:
    seen(browser, *LAPTOP, dark=True)
    visit(browser, f"{address}/{MOVABLE}")

    def contrast() -> float:
        button, ground = (
            browser.find_element(By.CSS_SELECTOR, "figure button"),
            browser.find_element(By.TAG_NAME, "body"),
        )
        bright = luminance(button.value_of_css_property("color"))
        return (bright + 0.05) / (luminance(ground.value_of_css_property("background-color")) + 0.05)

    until(lambda: contrast() >= 4.5)  # as WCAG asks of text; colours take a moment to change


def luminance(colour: str) -> float:
    """Of rgb(r, g, b) or rgba(r, g, b, 1), as WCAG has it."""
    shares = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_quoted_messages_are_read_without_scrolling(browser: WebDriver, address: str) -> None:
    cut = "return [...document.querySelectorAll('.language-text code')].map((e) => e.scrollWidth - e.clientWidth)"
    for size in (LAPTOP, PHONE):
        seen(browser, *size)
        browser.get(f"{address}/guides/troubleshooting.html")
        found = browser.execute_script(cut)
        assert len(found) > 4
        assert max(found) <= 0
    browser.get(f"{address}/law.html")
    wraps = browser.execute_script("return getComputedStyle(document.querySelector('pre code')).whiteSpace")
    assert wraps == "pre", "formulas keep their lines"


def test_commands_are_read_without_scrolling(browser: WebDriver, site: Path, address: str) -> None:
    seen(browser, *LAPTOP)
    block = "[...document.querySelectorAll('.language-sh code')]"
    cut = f"return {block}.map((e) => [e.scrollWidth - e.clientWidth, e.innerText])"
    found = 0
    for page in sorted(site.rglob("*.html")):
        browser.get(f"{address}/{page.relative_to(site)}")
        blocks = browser.execute_script(cut)
        assert [words for more, words in blocks if more > 0] == [], page.name
        found += len(blocks)
    assert found > 6


def test_names_at_the_head_of_a_table_stay_whole(browser: WebDriver, address: str) -> None:
    seen(browser, *LAPTOP)
    browser.get(f"{address}/likelihoods.html")
    lines = "return [...document.querySelectorAll('th code')].map((e) => [e.innerText, e.getClientRects().length])"
    found = browser.execute_script(lines)
    assert len(found) > 3
    assert [name for name, count in found if count > 1] == []


def test_light_and_dark_are_those_of_the_system_until_one_is_chosen(
    browser: WebDriver, address: str, tmp_path: Path
) -> None:
    def scheme() -> str:
        found: str = browser.execute_script("return document.body.dataset.mdColorScheme")
        return found

    seen(browser, *LAPTOP, dark=True)
    visit(browser, f"{address}/{MOVABLE}")
    until(lambda: scheme() == "slate")
    photograph(browser, tmp_path, "manual-dark")
    seen(browser, *LAPTOP)
    browser.get(f"{address}/five-minutes.html")  # another day: what the first visit found is not kept
    until(lambda: scheme() == "default")
    for chosen, now in (("Switch to dark", "default"), ("Switch to the setting of the system", "slate")):
        press(browser, SWITCH)
        until(lambda chosen=chosen: browser.find_element(By.CSS_SELECTOR, SWITCH).get_attribute("title") == chosen)
        until(lambda now=now: scheme() == now)  # light, then dark, whatever the system has
    browser.get(f"{address}/index.html")
    until(lambda: scheme() == "slate")
    browser.execute_script("localStorage.clear()")


def test_a_page_asks_nobody_else(browser: WebDriver, address: str) -> None:
    seen(browser, *LAPTOP)  # on a phone one has to open the search
    browser.get("about:blank")  # the page before may still ask, and what it logged is not this one's
    for kind in ("performance", "browser"):
        browser.get_log(kind)
    visit(browser, f"{address}/{MOVABLE}")
    browser.find_element(By.CSS_SELECTOR, "input.md-search__input").send_keys("tridiagonal")
    until(lambda: browser.find_elements(By.CSS_SELECTOR, ".md-search-result__item"))
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert any(name.endswith("search_index.json") for name in asked)
    assert [name for name in asked if not name.startswith((f"{address}/", "data:", "blob:"))] == []
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
