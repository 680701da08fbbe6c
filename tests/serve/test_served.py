"""The server as people meet it, a process of its own: the page in a real browser, whom it connects to, how it ends."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from PIL import Image

pytest.importorskip("selenium.webdriver", reason="the browser is driven by Selenium, of the extra dev")
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.remote.webelement import WebElement

from tests.patience import PATIENCE
from tests.serve.browsing import focused, opened, press, seen, settled, slide, the, touch, until, verdict
from tests.serve.serving import Served, file_of, stroke


@pytest.fixture
def page(browser: WebDriver, served: Served) -> WebDriver:
    return opened(browser, served.address)


def draw_a_one(browser: WebDriver) -> None:
    pad = the(browser, "pad")
    acts = ActionChains(browser, duration=20).move_to_element_with_offset(pad, 0, -90).click_and_hold()
    for _ in range(9):
        acts = acts.move_by_offset(0, 20)
    acts.release().perform()
    settled(browser)


def narrow_band(browser: WebDriver) -> str | None:
    """The outline of the curve's band, or None; looked up and read at once, for the page paints it anew at any time."""
    script = "return document.querySelector('#plot .narrow')?.getAttribute('d') ?? null"
    found: str | None = browser.execute_script(script)
    return found


def test_a_drawn_digit_is_answered(page: WebDriver, picture: Callable[[str], None]) -> None:
    draw_a_one(page)
    until(lambda: verdict(page).startswith("1"))
    assert len(page.find_elements(By.CSS_SELECTOR, "#boxes .box")) == 10
    assert len(page.find_elements(By.CSS_SELECTOR, "#boxes .dot")) == 2000
    assert "nats" in the(page, "epistemic-value").text
    picture("draw-light")


def test_certainty_goes_with_noise_and_the_mean_network_does_not_notice(page: WebDriver) -> None:
    draw_a_one(page)
    until(lambda: "quite certain" in verdict(page))
    slide(page, "input[name=noise]", 0.6)
    slide(page, "input[name=rotation]", 60)
    settled(page)  # both: of the noise alone the answer may have come first
    assert "Uncertain" in verdict(page)
    assert "hesitates between" in verdict(page)
    press(page, "input[value=mean]")
    until(lambda: "cannot say how sure it is" in verdict(page))
    press(page, "input[value=uncorrelated]")
    press(page, "#undistort")
    until(lambda: "quite certain" in verdict(page))
    slide(page, "#level", 80)
    slide(page, "#samples", 20)
    until(lambda: "80 % of the 20 networks" in verdict(page))


def test_sliders_can_be_moved_to_both_ends(page: WebDriver) -> None:
    draw_a_one(page)
    for name, ends in {"level": ("80 % of", "99.9 % of"), "samples": ("the 5 networks", "the 200 networks")}.items():
        for end, words in zip(("min", "max"), ends, strict=True):
            slide(page, f"#{name}", float(the(page, name).get_attribute(end)))
            until(lambda words=words: words in verdict(page))
    for name in ("noise", "rotation", "blur", "occlusion"):
        for end in ("min", "max"):
            selector = f"input[name={name}]"
            slide(page, selector, float(page.find_element(By.CSS_SELECTOR, selector).get_attribute(end)))
            settled(page)
            assert verdict(page)[0].isdigit(), f"{name}: {verdict(page)}, {the(page, 'trouble').text}"


def test_dark_follows_the_system_and_the_switch(page: WebDriver, picture: Callable[[str], None]) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = page.execute_script(ground)
    seen(page, 1280, 900, dark=True)
    until(lambda: page.execute_script(ground) != light)
    press(page, "#theme")
    until(lambda: page.execute_script(ground) == light)
    press(page, "#theme")
    until(lambda: page.execute_script(ground) != light)
    press(page, "#another")
    until(lambda: "Test image" in the(page, "source").text and page.find_elements(By.CSS_SELECTOR, "#boxes .box"))
    slide(page, "input[name=occlusion]", 0.5)
    settled(page)
    assert "0.5" in the(page, "distortions").text
    picture("draw-dark")


def test_a_phone_shows_all_of_it(page: WebDriver, picture: Callable[[str], None]) -> None:
    seen(page, 375, 800)
    for tab in ("draw", "curve", "run"):
        press(page, f"#tab-{tab}")
        if tab == "run":
            until(lambda: page.find_elements(By.CSS_SELECTOR, "#gallery li"))
            assert page.execute_script("return document.getElementById('learning').viewBox.baseVal.width") < 375
        if tab == "draw":
            draw_a_one(page)
            until(lambda: verdict(page).startswith("1"))
        if tab == "curve":
            press(page, "#example")
            until(lambda: narrow_band(page))
        wide = page.execute_script("return document.documentElement.scrollWidth")
        assert wide <= 375, f"{tab} needs {wide} pixels"
        picture(f"phone-{tab}")
        seen(page, 375, 800)


def test_a_finger_draws_with_the_verdict_in_sight(page: WebDriver, picture: Callable[[str], None]) -> None:
    """The pad stays where it is while the answer changes, or the stroke would jump; a palm draws nothing."""
    seen(page, 375, 667)
    bounds = "return document.getElementById(arguments[0]).getBoundingClientRect().toJSON()"
    pad = page.execute_script(bounds, "pad")
    x, y, high = pad["x"] + pad["width"] / 2, pad["y"] + 0.15 * pad["height"], 0.7 * pad["height"]
    palm = (pad["x"] + 10, pad["bottom"] - 10)
    touch(page, "Start", (x, y))
    for part in range(1, 8):
        touch(page, "Move", (x, y + part / 10 * high))
    touch(page, "Start", (x, y + 0.7 * high), palm)
    touch(page, "Move", (x, y + high), (palm[0] + 40, palm[1]))
    touch(page, "End")
    until(lambda: verdict(page).startswith("1: quite certain"))
    assert page.execute_script(bounds, "pad") == pad
    page.execute_script("document.getElementById('network').scrollIntoView()")
    shown = page.execute_script(bounds, "verdict")
    assert (shown["top"], shown["bottom"] < 200) == (0, True)
    picture("phone-finger")


def test_points_are_fitted(page: WebDriver, picture: Callable[[str], None]) -> None:
    press(page, "#tab-curve")
    press(page, "#example")
    until(lambda: "Fitted to 11 points" in the(page, "fit").text)
    ActionChains(page).move_to_element_with_offset(the(page, "plot"), 100, 50).click().perform()
    until(lambda: "Fitted to 12 points" in the(page, "fit").text)
    picture("curve")
    before = until(lambda: narrow_band(page))
    slide(page, "#kl", 0)
    until(lambda: narrow_band(page) not in (None, before))


def test_the_test_images_are_shown_and_can_be_asked_about(page: WebDriver, picture: Callable[[str], None]) -> None:
    press(page, "#tab-run")
    assert len(until(lambda: page.find_elements(By.CSS_SELECTOR, "#gallery button"))) == 24
    assert the(page, "gallery-status").text == "The first 24 of 360 shown. Choose one to ask about it."
    assert "test error" in the(page, "scores").text
    picture("run")
    page.find_element(By.CSS_SELECTOR, "#filter [name=true]").send_keys("4")

    def fours() -> list[WebElement]:
        shown = page.find_elements(By.CSS_SELECTOR, "#gallery button")
        return shown if all("in truth 4" in each.text for each in shown) else []

    until(fours)  # from here on the list is as it was asked for, and stays
    press(page, "#gallery button")
    until(lambda: "in truth 4" in the(page, "source").text)
    assert the(page, "panel-draw").is_displayed()
    until(lambda: "Uncertain" in verdict(page))
    picture("unsure")


def test_of_a_large_test_the_page_says_what_was_looked_at(page: WebDriver) -> None:
    words = page.execute_async_script(
        """const done = arguments[0], run = {test_images: 10000}, of = 1000;
        import("/page/run.js").then(({counted}) => {
          const whole = counted({test_rows: 40}, {of: 40, found: 40}, 40);
          done([counted(run, {of, found: 1000}, 24), counted(run, {of, found: 3}, 3), whole]);
        }, (error) => done(String(error)));"""
    )
    rest = "Only the first 1,000 of the test were asked about."
    assert words == [f"The first 24 of 1,000 shown. {rest}", f"3 shown. {rest}", "40 shown."]


def test_keys_alone_draw_and_ask(page: WebDriver) -> None:
    keys = ActionChains(page)
    page.execute_script("document.activeElement.blur()")
    for _ in range(12):
        keys.send_keys(Keys.TAB).perform()
        if focused(page) == "pad":
            break
    keys.send_keys(" ", *[Keys.ARROW_DOWN] * 14, " ").perform()
    until(lambda: verdict(page).startswith("1"))
    until(lambda: the(page, "spoken").get_attribute("textContent").startswith("1"))
    until(lambda: the(page, "pen").get_attribute("textContent") == "Pen up.")
    keys.send_keys(Keys.DELETE).perform()
    until(lambda: verdict(page).startswith("Nothing yet"))
    the(page, "tab-draw").send_keys(Keys.ARROW_RIGHT)
    until(lambda: focused(page) == "tab-curve")
    the(page, "plot").send_keys(Keys.ENTER, *[Keys.ARROW_RIGHT] * 5, Keys.ENTER)
    until(lambda: "Fitted to 2 points" in the(page, "fit").text)
    until(lambda: the(page, "spoken").get_attribute("textContent") == "A point at 0.25, 0.")


def test_every_control_has_a_name(page: WebDriver) -> None:
    """As a screen reader finds them: by the browser's own accessibility tree."""
    press(page, "#tab-run")
    until(lambda: page.find_elements(By.CSS_SELECTOR, "#gallery li"))
    page.execute_cdp_cmd("Accessibility.enable", {})
    for tab, shown in {"draw": "Drawing pad", "curve": "Points and fitted curve", "run": "which are"}.items():
        press(page, f"#tab-{tab}")
        found = until(lambda shown=shown: tree if shown in (tree := controls(page)).values() else None)
        assert [place for place, name in found.items() if not name] == [], tab


def controls(page: WebDriver) -> dict[tuple[str, int], str]:
    """The names of what can be operated or looked at, by role and node."""
    roles = ("button", "slider", "radio", "combobox", "tab", "application", "image")
    nodes = page.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    return {
        (node["role"]["value"], node.get("backendDOMNodeId", -1)): node.get("name", {}).get("value", "").strip()
        for node in nodes
        if node.get("role", {}).get("value") in roles
    }


BAD = {
    "words.png": (b"these are words", "be an image that can be read"),
    "empty.png": (b"", "the body is empty"),
    "deep.png": (file_of(Image.new("I;16", (20, 20), 30000)), "have 8 bits per channel"),
    "large.png": (b"\x00" * (50 * 2**20), "has 50 MB; at most 10 are taken"),
    "blank.png": (file_of(Image.new("L", (50, 50), 255)), "show something on its ground"),
}
GOOD = {
    "moving.gif": (
        file_of(stroke(), "GIF", save_all=True, append_images=[Image.new("L", (100, 100))]),
        "the first of several",
    ),
    "print.tif": (file_of(stroke("CMYK", (0, 0, 0, 0), (0, 0, 0, 255)), "TIFF"), "made grey"),
    "through.png": (file_of(stroke("RGBA", (0, 0, 0, 0), (0, 0, 0, 255))), "transparent parts became white"),
}


def test_files_are_taken_or_refused_in_words(page: WebDriver, tmp_path: Path) -> None:
    for name, (content, words) in (BAD | GOOD).items():
        (tmp_path / name).write_bytes(content)
        the(page, "upload").send_keys(str(tmp_path / name))
        if name == "large.png":  # which is not sent, and so is not what is asked about
            until(lambda words=words: words in the(page, "trouble").text)
            continue
        until(lambda name=name: name in the(page, "source").text)
        settled(page)
        assert words in the(page, "trouble" if name in BAD else "changes").text, name
        if name in GOOD:
            assert verdict(page).startswith("1")
            assert not the(page, "trouble").is_displayed()
        else:
            assert verdict(page).startswith("No answer")
            assert page.find_elements(By.CSS_SELECTOR, "#boxes .dot") == []


def test_clearing_the_pad_takes_the_complaint_away(page: WebDriver, tmp_path: Path) -> None:
    (tmp_path / "words.png").write_bytes(BAD["words.png"][0])
    the(page, "upload").send_keys(str(tmp_path / "words.png"))
    until(lambda: the(page, "trouble").is_displayed())
    press(page, "#clear")
    until(lambda: not the(page, "trouble").is_displayed())
    assert verdict(page).startswith("Nothing yet")


def test_the_pad_shows_the_network_a_test_image_as_it_is(page: WebDriver) -> None:
    """Through canvas, PNG and preparation nothing is lost but rounding, of the images that lie in the middle."""
    lost = page.execute_async_script(
        """const look = async () => {
          const {ask} = await import('/page/api.js'), lost = [];
          const painted = (image, side) => {
            const canvas = document.createElement('canvas'); canvas.width = canvas.height = side;
            const pen = canvas.getContext('2d'); pen.imageSmoothingEnabled = false;
            pen.drawImage(image, 0, 0, side, side); return [canvas, pen];
          };
          for (let number = 0; number < 20; number++) {
            const {png} = await ask(`/api/test/${number}`), image = new Image();
            image.src = `data:image/png;base64,${png}`; await image.decode();
            const body = await new Promise((done) => painted(image, 280)[0].toBlob(done, 'image/png'));
            const {seen} = await ask('/api/predict', {body, type: 'image/png'});
            const raw = painted(image, 8)[1].getImageData(0, 0, 8, 8).data;
            lost.push(Math.max(...seen[0].flat().map((value, place) => Math.abs(value - raw[4 * place] / 255))));
          }
          return lost;
        };
        look().then(arguments[0], (error) => arguments[0](String(error)));"""
    )
    assert sum(each < 0.005 for each in lost) >= 12, lost


def test_the_browser_asks_nobody_else(page: WebDriver, served: Served) -> None:
    press(page, "#another")
    until(lambda: "Test image" in the(page, "source").text)
    asked = []
    for entry in page.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.append(message["params"]["request"]["url"])
    asked = [url for url in asked if not url.startswith(("data:", "blob:", "chrome"))]  # those are of no network

    assert any(url.startswith(served.address) for url in asked)
    assert [url for url in asked if urlsplit(url).hostname != "127.0.0.1"] == []  # this server, or that of other tests
    ours = ("javascript", "console-api", "security")  # else it is answers that refuse, or what browsers say of machines
    assert [entry for entry in page.get_log("browser") if entry["source"] in ours] == []


def test_who_hangs_up_is_no_error(served: Served) -> None:
    """That none is logged for it is looked at when the server has ended."""
    address = urlsplit(served.address)
    with httpx2.Client(base_url=served.address, timeout=PATIENCE) as client:

        def gone() -> int:
            found = re.search(r'path="/api/predict",status="499"} (\d+)', client.get("/metrics").text)
            return int(found[1]) if found else 0

        before = gone()  # a browser that was sent elsewhere may have hung up, too
        with socket.create_connection((address.hostname, address.port)) as caller:
            head = f"POST /api/predict HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: image/png\r\n"
            caller.sendall(f"{head}Content-Length: 1000\r\n\r\nthe first".encode())
        until(lambda: gone() > before)


def test_it_connects_to_nobody_and_ends_when_told(served: Served) -> None:
    """Last, for it ends the server."""
    with httpx2.Client(base_url=served.address, timeout=PATIENCE) as client:
        until(lambda: client.get("/readyz").status_code == 200)  # nobody may have asked before
        assert client.get("/api/run").json()["classes"] == [str(digit) for digit in range(10)]
    served.end()
    assert served.process.returncode == 0
    assert [line for line in served.watched.read_text().splitlines() if "127.0.0.1" not in line] == []
    lines = [json.loads(line) for line in served.log.read_text().splitlines()]
    assert {line["event"] for line in lines} == {"ready", "request"}
    facts = {"time", "level", "event", "method", "path", "status", "ms"}  # and so nothing of what was asked about
    assert all(line.keys() == facts for line in lines if line["event"] == "request")
