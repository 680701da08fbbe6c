"""A run on one's own images before a real browser: neither square nor grey, and with a class of a long name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("selenium.webdriver", reason="the browser is driven by Selenium, of the extra dev")
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver

from tests.own.cases import fit, write_images
from tests.serve.browsing import opened, seen, the, until, verdict
from tests.serve.serving import Served, serving

WIDE, HIGH = 24, 16
LONG = "light as the sky on a morning in summer"


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("photos")
    data = write_images(folder / "photos", size=(WIDE, HIGH))
    (data / "light").rename(data / LONG)
    assert fit(data, folder / "run", "--iterations", 3).code == 0  # what it learns does not matter
    with serving(folder / "run", folder) as made:
        yield made


def test_it_begins_with_a_test_image_and_sees_it_as_it_is(
    browser: WebDriver, photos: Served, picture: Callable[[str], None]
) -> None:
    page = opened(browser, photos.address)
    until(lambda: "certain" in verdict(page).lower())
    assert "Test image 0" in the(page, "source").text
    around = the(page, "most-doubt").find_element(By.XPATH, "..").get_attribute("textContent") or ""
    assert "among 2 classes is 0.69" in around
    differ = page.execute_async_script(
        """const look = async () => {
          const {ask} = await import('/page/api.js'), {png} = await ask('/api/test/0'), image = new Image();
          image.src = `data:image/png;base64,${png}`; await image.decode();
          const canvas = document.createElement('canvas');
          Object.assign(canvas, {width: image.width, height: image.height});
          canvas.getContext('2d').drawImage(image, 0, 0);
          const pixels = (each) => [...each.getContext('2d').getImageData(0, 0, each.width, each.height).data];
          const shown = pixels(document.getElementById('pad')), seen = pixels(document.getElementById('seen'));
          return pixels(canvas).filter((value, place) => value !== shown[place] || value !== seen[place]).length;
        };
        look().then(arguments[0], (error) => arguments[0](String(error)));"""
    )
    assert differ == 0
    pad = the(page, "pad").rect
    assert pad["width"] / pad["height"] == pytest.approx(WIDE / HIGH, rel=0.02)
    picture("photos")
    seen(page, 375, 667)
    until(lambda: page.execute_script("return document.getElementById('boxes').viewBox.baseVal.width") < 375)
    starts = "return [...document.querySelectorAll('#boxes .name')].map((name) => name.getBBox().x)"
    until(lambda: min(page.execute_script(starts)) > -1)  # letters differ in width: a pixel is none
    assert page.execute_script("return document.documentElement.scrollWidth") <= 375
    picture("photos-phone")


def test_of_many_classes_the_likeliest_are_drawn(browser: WebDriver, photos: Served) -> None:
    page = opened(browser, photos.address)
    until(lambda: "certain" in verdict(page).lower())
    page.execute_async_script(
        """const classes = [...Array(300).keys()].map(String), probabilities = classes.map(() => 0.001);
        probabilities[250] = 0.701;
        const alike = probabilities.map((share) => [share, share, share]);
        const answer = {classes, probabilities, label: '250', hesitates: [], intervals: alike, quartiles: alike};
        const entropy = {aleatoric: 1, epistemic: 0, total: 1};
        import('/page/answer.js').then(({showAnswer}) => {
          showAnswer({...answer, entropy, level: 0.95, samples: 2, certain: true, draws: null, seen: null}, '');
          arguments[0]();
        });"""
    )
    names = [each.text for each in page.find_elements(By.CSS_SELECTOR, "#boxes .name")]
    assert (len(names), names[-1]) == (20, "250")
    assert "The 20 likeliest of 300 classes" in the(page, "likeliest").text
    assert len(page.find_elements(By.CSS_SELECTOR, "#numbers tbody tr")) == 300
