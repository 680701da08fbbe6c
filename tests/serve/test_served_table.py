"""A run on a table before a real browser: its columns as a form, and its test rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("selenium.webdriver", reason="the browser is driven by Selenium, of the extra dev")
pytest.importorskip("pandas", reason="tables are read with pandas")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver

from tests.own.cases import fit, rows_of, write_csv
from tests.serve.browsing import opened, press, seen, settled, the, until, verdict
from tests.serve.serving import Served, serving


@pytest.fixture(scope="module", params=["price", "dear"])
def target(request: pytest.FixtureRequest) -> str:
    """A value, and then classes."""
    name: str = request.param
    return name


FAR = """
const done = arguments[0], far = 1e9, bounds = [far - 2.5, far + 3.5];
const answer = {target: "price", prediction: far + 0.5, interval: bounds, average: bounds, promised: null, remark: ""};
const doubt = {certain: true, std: 1.5, aleatoric: 2, epistemic: 0.25, level: 0.95, samples: 2, network: "correlated"};
import("/page/value.js").then(({showValue}) => { showValue({...answer, ...doubt, draws: bounds}); done(); });
"""


@pytest.fixture(scope="module")
def table(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder, other = tmp_path_factory.mktemp("table"), {"price": "dear", "dear": "price"}[target]
    data = write_csv(folder / "people.csv", rows_of())
    assert fit(data, folder / "run", "--target", target, "--ignore", other).code == 0
    with serving(folder / "run", folder) as made:
        yield made


def test_a_form_asks_and_its_test_rows_fill_it(
    browser: WebDriver, table: Served, target: str, picture: Callable[[str], None]
) -> None:
    page = opened(browser, table.address)
    settled(page)
    assert f"Test row 0, in truth {target} =" in the(page, "row-source").text
    assert not the(page, "pad").is_displayed()
    height, colour = page.find_elements(By.CSS_SELECTOR, "#row input, #row select")
    assert height.accessible_name.startswith("height")
    before = verdict(page)
    height.send_keys(Keys.CONTROL, "a")
    height.send_keys("130")
    colour.send_keys("r")
    until(lambda: verdict(page) != before)
    settled(page)
    assert "outside what it learned from" in height.accessible_name  # all rows are of people above 140
    words = the(page, "doubt").get_attribute("aria-label") or ""
    assert "the row" in words
    assert "image" not in words
    picture(f"table-{target}")
    press(page, "input[value=mean]")
    until(lambda: "cannot say how sure it is" in verdict(page))
    height.send_keys(Keys.CONTROL, "a")
    height.send_keys("171")
    assert "outside" not in height.accessible_name
    height.send_keys(Keys.CONTROL, "a")
    height.send_keys("1e300")
    until(lambda: "must lie within 1,000,000 standard deviations" in the(page, "trouble").text)
    press(page, "#tab-run")
    rows = until(lambda: page.find_elements(By.CSS_SELECTOR, "#gallery button"))
    assert len(rows) == 24
    assert not the(page, "trouble").is_displayed()  # the message was about the other tab, where it still stands
    press(page, "#tab-draw")
    assert "must lie within 1,000,000 standard deviations" in verdict(page)
    press(page, "#tab-run")
    picture(f"table-{target}-run")
    seen(page, 375, 800)
    press(page, "#gallery button")
    until(lambda: "Test row" in the(page, "row-source").text)
    settled(page)
    assert page.execute_script("return document.documentElement.scrollWidth") <= 375
    picture(f"table-{target}-phone")


def test_values_that_lie_far_from_zero_are_told_apart(browser: WebDriver, table: Served) -> None:
    page = opened(browser, table.address)
    settled(page)
    page.execute_async_script(FAR)
    assert "price: 1,000,000,000.5, quite certain" in verdict(page)
    assert "between 999,999,997.5 and 1,000,000,003.5" in verdict(page)
    marks = [each.text for each in page.find_elements(By.CSS_SELECTOR, "#boxes text")]
    assert len({*marks}) == 3
    assert the(page, "total-value").text == "± 1.5"


def test_a_curve_that_falls_below_zero_stays_in_its_picture(browser: WebDriver, table: Served) -> None:
    """The likelihood of values is a density: learned well, its NLL is negative."""
    page = opened(browser, table.address)
    press(page, "#tab-run")
    edges = page.execute_async_script(
        """const done = arguments[0];
        import("/page/run.js").then(({drawLearning}) => {
          drawLearning([{iteration: 10, nll: 0.1}, {iteration: 20, nll: -3.6}]);
          const curve = document.querySelector("#learning .mean").getBBox();
          done([curve.y, curve.y + curve.height, document.querySelector("#learning").viewBox.baseVal.height]);
        }, (error) => done(String(error)));"""
    )
    top, bottom, high = edges
    assert 0 < top < bottom < high
    marks = [each.text for each in page.find_elements(By.CSS_SELECTOR, "#learning text")][:3]
    assert marks == ["-3.60", "-1.75", "0.10"]
