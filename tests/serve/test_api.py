"""The JSON interface: what is answered, what is refused and how, and that nothing depends on who else asks."""

from __future__ import annotations

import json
import math
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from threading import Event
from typing import Any

import pytest
import torch
from fastapi.testclient import TestClient
from PIL import Image

import tribayes as tb
from tests.patience import PATIENCE
from tests.serve.serving import client_of, file_of, on_the_pad, stroke, until
from tribayes.recipes.recipe_run import RecipeRun
from tribayes.runs import Examples
from tribayes.runs.evaluation import sampled_answers
from tribayes.serve import curve
from tribayes.serve.asking import Options
from tribayes.serve.images import image_of_file
from tribayes.serve.limits import Limits
from tribayes.serve.subject import Subject

PNG, JSON = {"content-type": "image/png"}, {"content-type": "application/json"}


def ask(client: TestClient, content: bytes, headers: dict[str, str] = PNG, **query: Any) -> Any:
    return client.post("/api/predict", params=query, content=content, headers=headers)


def refused(answer: Any, status: int, words: str) -> None:
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]


def test_an_answer_is_that_of_predict(client: TestClient, subject: Subject) -> None:
    """The same networks, by an independent route: the run asked by `tribayes predict`'s own function."""
    pixels = subject.images[7]
    body = {"pixels": pixels[0].tolist()}
    said = client.post("/api/predict", params={"prepare": False, "level": 0.9, "samples": 40, "draws": True}, json=body)
    answer = said.json()
    test = Examples(pixels.unsqueeze(0), torch.zeros(1, dtype=torch.int64))
    pred = sampled_answers(subject.model, test, subject.run.seed, 40, keep_samples=True)
    lower, upper = pred.interval(0.9)
    torch.testing.assert_close(torch.tensor(answer["probabilities"]), pred.mean[0], atol=2e-6, rtol=0)
    torch.testing.assert_close(
        torch.tensor(answer["intervals"]), torch.stack([lower[0], upper[0]], 1), atol=2e-6, rtol=0
    )
    torch.testing.assert_close(torch.tensor(answer["draws"]), pred.samples[:, 0], atol=1e-4, rtol=0)
    assert answer["certain"] == bool(pred.certain(0.9))
    assert answer["label"] == subject.classes[int(pred.label)]
    for name, value in (("total", pred.entropy), ("aleatoric", pred.aleatoric), ("epistemic", pred.epistemic)):
        assert answer["entropy"][name] == pytest.approx(float(value), abs=5e-6)
    assert answer["samples"] == 40
    assert torch.allclose(torch.tensor(answer["seen"]), pixels, atol=1e-4)


def test_who_hesitates_names_the_classes_whose_intervals_overlap(client: TestClient, subject: Subject) -> None:
    found = set()
    for number in range(40):
        answer = ask(client, on_the_pad(subject.images[number]), level=0.99).json()
        best = answer["classes"].index(answer["label"])
        bounds = answer["intervals"]
        near = {
            name
            for name, (lower, upper) in zip(answer["classes"], bounds, strict=True)
            if upper >= bounds[best][0] and lower <= bounds[best][1]
        }
        assert set(answer["hesitates"]) == (set() if near == {answer["label"]} else near)
        assert answer["certain"] is (near == {answer["label"]})
        found.add(answer["certain"])
    assert found == {True, False}


def test_three_networks_can_be_asked(client: TestClient, subject: Subject) -> None:
    pad = on_the_pad(subject.images[3])
    learned, without, mean = (ask(client, pad, network=name).json() for name in subject.networks)
    assert learned["probabilities"] != without["probabilities"]
    assert (mean["samples"], mean["intervals"], mean["certain"], mean["hesitates"]) == (1, None, None, [])
    plain = tb.to_deterministic(subject.model)(torch.tensor(mean["seen"]).unsqueeze(0)).softmax(-1)[0]
    torch.testing.assert_close(torch.tensor(mean["probabilities"]), plain.detach(), atol=1e-3, rtol=0)
    expected = tb.Ensemble(tb.ablate_correlation(subject.model), 50, subject.seed)
    seen = torch.tensor(without["seen"]).unsqueeze(0)
    torch.testing.assert_close(
        torch.tensor(without["probabilities"]), expected.predict(seen).mean[0], atol=1e-3, rtol=0
    )


def test_the_pad_costs_at_most_half_a_point(subject: Subject) -> None:
    """All 360 test images, as the page's pad sends them, against the same images as they are."""
    sent = [image_of_file(on_the_pad(image), subject, Options())[0] for image in subject.images]
    drawn, plain = (
        int((subject.ask("correlated", images).mean(0).argmax(-1) == subject.labels).sum())
        for images in (torch.stack(sent), subject.images)
    )
    assert plain > 330
    assert plain - drawn <= 0.005 * len(sent), f"{drawn} right through the pad, {plain} without"


def test_distortions_take_certainty_away(client: TestClient) -> None:
    pad = file_of(stroke())
    base = ask(client, pad).json()
    assert (base["label"], base["certain"]) == ("1", True)
    for name, value in {"noise": 0.8, "rotation": 50, "blur": 0.3, "occlusion": 1.0}.items():
        worse = ask(client, pad, **{name: value}).json()
        assert worse["entropy"]["total"] > base["entropy"]["total"], name
        assert worse == ask(client, pad, **{name: value}).json()  # the noise is always the same


GIF = file_of(stroke(), "GIF", save_all=True, append_images=[Image.new("L", (100, 100))])
BOMB = BytesIO()
Image.new("1", (6000, 6000)).save(BOMB, "PNG")


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (b"these are words", 415, "must be an image that can be read (cannot identify image file); pass one of PNG"),
        (b"", 422, "the body is empty"),
        (file_of(Image.new("I;16", (9, 9), 30000)), 415, "must have 8 bits per channel"),
        (BOMB.getvalue(), 413, "6000×6000 are more than 25,000,000 pixels"),
        (file_of(Image.new("L", (50, 50), 90)), 422, "must show something on its ground"),
        (b"x" * (10 * 2**20 + 1), 413, "must have at most 10,485,760 bytes"),
    ],
)
def test_what_is_no_digit_is_refused(client: TestClient, content: bytes, status: int, words: str) -> None:
    refused(ask(client, content), status, words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (GIF, ["the first of several pictures in the file", "made grey"]),
        (file_of(stroke("CMYK", (0, 0, 0, 0), (0, 0, 0, 255)), "TIFF"), ["made grey"]),
        (file_of(stroke("RGBA", (0, 0, 0, 0), (0, 0, 0, 255))), ["transparent parts became white", "made grey"]),
        (file_of(stroke("L", 255, 0), "JPEG"), []),
    ],
)
def test_unusual_files_are_read_and_the_answer_says_how(client: TestClient, content: bytes, words: list[str]) -> None:
    answer = ask(client, content).json()
    assert (answer["label"], [each for each in answer["changes"] if each in words]) == ("1", words)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"level": 2}, "`level` cannot be taken: Input should be less than or equal to 0.999"),
        ({"samples": 51}, "`samples` (=51) must be at most 50; serve more with --samples"),
        ({"samples": 1}, "`samples` cannot be taken"),
        ({"network": "best"}, "'correlated', 'uncorrelated' or 'mean'"),
        ({"noise": "nan"}, "`noise` cannot be taken"),
        ({"nois": 0.5}, "`nois` cannot be taken: Extra inputs are not permitted"),
    ],
)
def test_options_are_checked(client: TestClient, query: dict[str, Any], words: str) -> None:
    refused(ask(client, file_of(stroke()), **query), 422, words)


@pytest.mark.parametrize(
    "pixels", [[], [[]], [[1, 2]], [[0.5, 0.5], [0.5]], "x", None, [[float("nan")]], [[[0.5]], [[0.5]]]]
)
def test_pixels_are_checked(client: TestClient, pixels: Any) -> None:
    answer = client.post(
        "/api/predict", content=json.dumps({"pixels": pixels}), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 422
    assert answer.json()["error"]


GREEDY = {
    "pixels that are all wrong": ("/api/predict", '{"pixels":[[' + "2," * 2_000_000 + "2]]}", 422, "`pixels"),
    "a row of pixels without end": ("/api/predict", '{"pixels":[[' + "1," * 2_000_000 + "1]]}", 422, "at most 1024"),
    "rows of pixels without end": ("/api/predict", '{"pixels":[' + "[2]," * 1_000_000 + "[2]]}", 422, "`pixels"),
    "names without end": (
        "/api/predict",
        '{"pixels":[[1]],' + ",".join(f'"{number}":1' for number in range(300_000)) + "}",
        422,
        "the body has 300,000 entries that cannot be taken",
    ),
    "points without end": ("/api/regression", '{"points":[' + "[1,2]," * 300_000 + "[1,2]]}", 413, "1,048,576 bytes"),
    "cells without end": ("/api/row", '{"row":{' + '"a":1,' * 300_000 + '"b":1}}', 413, "1,048,576 bytes"),
}


@pytest.mark.parametrize("name", GREEDY)
def test_bodies_of_which_everything_is_wrong_take_little_to_refuse(client: TestClient, name: str) -> None:
    """A list of a million errors would take gigabytes, and a minute in which nobody else is answered."""
    path, body, status, words = GREEDY[name]
    tracemalloc.start()
    answer = client.post(path, content=body, headers=JSON)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    refused(answer, status, words)
    assert most < 10 * len(body) + 20e6  # of Python's objects; the test's client copies the body, too


def test_a_body_that_does_not_say_how_long_it_is_is_bounded_too(client: TestClient) -> None:
    for path, most in (("/api/predict", "10,485,760"), ("/api/row", "1,048,576"), ("/api/regression", "1,048,576")):
        parts = (b"[" * 2**20 for _ in range(11))
        refused(client.post(path, content=parts, headers=JSON), 413, f"the body must have at most {most} bytes; send")


def test_what_is_no_json_is_said_to_be_none(client: TestClient) -> None:
    for path in ("/api/regression", "/api/predict"):
        refused(client.post(path, content=b'{"points": nope', headers=JSON), 422, "`the body` cannot be taken: ")


def test_other_bodies_and_addresses_are_refused(client: TestClient) -> None:
    refused(ask(client, b"x", {"content-type": "text/plain"}), 415, "must be image/… or application/json")
    refused(client.get("/nowhere"), 404, "Not Found")
    refused(client.get("/docs"), 404, "Not Found")
    refused(client.get("/page/../app.py"), 404, "Not Found")
    refused(client.get("/api/predict"), 405, "Method Not Allowed")
    refused(client.get("/api/test/360"), 404, "must be below 360")


def test_strangers_stay_outside(client: TestClient) -> None:
    refused(client.get("/api/run", headers={"host": "evil.example"}), 421, "this server is called testserver")
    refused(client.get("/", headers={"host": "testserver.evil.example:80"}), 421, "this server is called")
    refused(client.get("/api/run", headers={"origin": "http://evil.example"}), 403, "only the page of this server")
    refused(client.get("/api/run", headers={"origin": "null"}), 403, "only the page of this server")
    answer = client.get("/api/run", headers={"origin": "http://testserver"})
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


def test_a_token_is_asked_for(subject: Subject) -> None:
    with client_of(subject, token="secret") as client:
        refused(client.get("/api/run"), 401, "a token is needed")
        refused(client.get("/metrics", headers={"authorization": "Bearer wrong"}), 401, "a token is needed")
        assert client.get("/api/run", headers={"authorization": "Bearer secret"}).status_code == 200
        assert client.get("/").status_code == 200  # it holds no data, and asks for the token's


def test_who_asks_beside_changes_nothing(client: TestClient, subject: Subject) -> None:
    pads = [on_the_pad(image) for image in subject.images[:24]]
    alone = [ask(client, pad).json() for pad in pads]
    batcher, may_go_on = client.app.state.service.batcher, Event()
    before = batcher.batches
    asking, begun = subject.ask, list[int]()

    def ask_when_told(network: str, images: torch.Tensor) -> torch.Tensor:
        begun.append(len(images))
        assert may_go_on.wait(PATIENCE)
        return asking(network, images)

    batcher._ask = ask_when_told  # so that those who come meanwhile wait, however fast or slow the machine is
    with ThreadPoolExecutor(len(pads)) as pool:
        answers = [pool.submit(lambda pad=pad: ask(client, pad).json()) for pad in pads]
        until(lambda: begun and begun[0] + batcher.waiting == len(pads))
        may_go_on.set()
        together = [answer.result() for answer in answers]
    assert batcher.batches - before == len(begun) == 1 + math.ceil((len(pads) - begun[0]) / Limits().together)
    for one, other in zip(alone, together, strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=5e-6)
        assert one["certain"] == other["certain"]


def test_too_many_and_too_slow_are_told_so(subject: Subject) -> None:
    with client_of(subject, limits=Limits(waiting=0, seconds=PATIENCE)) as client:
        answer = ask(client, file_of(stroke()))
        refused(answer, 429, "too many questions wait")
        assert answer.headers["retry-after"] == "1"
    with client_of(subject, limits=Limits(seconds=1e-4, fits=0)) as client:
        refused(ask(client, file_of(stroke())), 504, "no answer within 0.0001 seconds")
        refused(client.post("/api/regression", json={"points": [[0, 0], [1, 1]]}), 429, "too many")


def test_where_the_networks_cannot_be_drawn_it_says_so(
    subject: Subject, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(subject, "draw", lambda: 1 / 0)
    with client_of(subject, wait=False) as client:
        until(lambda: "the networks could not be drawn; the server's log says why" in client.get("/readyz").text)
        refused(ask(client, file_of(stroke())), 503, "could not be drawn")
        assert "ZeroDivisionError" in caplog.text
        assert client.get("/healthz").text == "alive"


def test_before_the_networks_are_drawn_it_says_so(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Subject(RecipeRun.open(subject.run.folder), samples=3)
    draw, may_draw = other.draw, Event()

    def draw_when_told() -> None:
        assert may_draw.wait(PATIENCE)
        draw()

    monkeypatch.setattr(other, "draw", draw_when_told)
    with client_of(other, wait=False) as client:
        assert client.get("/healthz").text == "alive"
        refused(client.get("/readyz"), 503, "being drawn")
        refused(ask(client, file_of(stroke())), 503, "being drawn")
        may_draw.set()
        until(lambda: client.get("/readyz").text == "ready")
        assert ask(client, file_of(stroke())).status_code == 200


def test_health_and_numbers(client: TestClient) -> None:
    ask(client, file_of(stroke()))
    client.get("/some/secret/address")
    client.request("SECRET", "/healthz")
    lines = client.get("/metrics").text.splitlines()
    assert 'tribayes_requests_total{method="POST",path="/api/predict",status="200"} 1' in lines
    assert 'tribayes_requests_total{method="GET",path="other",status="404"} 1' in lines
    assert 'tribayes_requests_total{method="other",path="/healthz",status="405"} 1' in lines
    assert "tribayes_ready 1" in lines
    assert not any("secret" in line.lower() for line in lines)


def test_the_description_names_everything(client: TestClient) -> None:
    answer = client.get("/api/openapi.json")
    assert "ValidationError" not in answer.text  # FastAPI's own form of a refusal, which is never sent
    described = answer.json()["paths"]
    assert {"/api/predict", "/api/regression", "/api/run", "/api/gallery", "/readyz", "/metrics"} <= described.keys()
    asking = described["/api/predict"]["post"]
    assert {"image/*", "application/json"} == asking["requestBody"]["content"].keys()
    assert {"200", "404", "408", "413", "415", "422", "429", "503", "504"} <= asking["responses"].keys()
    assert {"level", "samples", "network", "noise"} <= {each["name"] for each in asking["parameters"]}


def test_the_gallery_shows_what_was_asked_for(client: TestClient, subject: Subject) -> None:
    gallery = client.app.state.service.gallery
    until(lambda: gallery.ready)
    for kind in ("wrong", "most uncertain", "confidently wrong", "quite certain", "all"):
        images = client.get("/api/gallery", params={"kind": kind, "limit": 60}).json()["images"]
        if "wrong" in kind:
            assert all(image["true"] != image["predicted"] for image in images)
        if kind in ("confidently wrong", "quite certain"):
            assert all(image["certain"] for image in images)
        if kind == "most uncertain":
            assert [image["entropy"] for image in images] == sorted((each["entropy"] for each in images), reverse=True)
    found = client.get("/api/gallery", params={"kind": "all", "limit": 5}).json()
    assert (len(found["images"]), found["found"]) == (5, len(subject.labels))  # that there are more, one has to be told
    fours = client.get("/api/gallery", params={"kind": "all", "true": "4", "limit": 60}).json()["images"]
    assert [image["number"] for image in fours] == (subject.labels == 4).nonzero().flatten().tolist()[:60]
    refused(client.get("/api/gallery", params={"predicted": "ten"}), 422, "`predicted` (='ten') must be a class")


def test_a_curve_is_fitted_and_the_prior_widens_it(client: TestClient) -> None:
    points = [[x / 5, (x / 5) ** 2] for x in range(-4, 5)]

    def width(weight: float) -> float:
        body = {"points": points, "kl_weight": weight, "left": -1.5, "right": 1.5}
        band = client.post("/api/regression", json=body).json()
        assert all(low <= mid <= high for (low, high), mid in zip(band["function"], band["mean"], strict=True))
        return sum(high - low for low, high in band["function"]) / len(band["function"])

    assert width(1.0) > 1.5 * width(0.01)


def test_points_are_checked(client: TestClient) -> None:
    for points in ([], [[0, 0]], [[0, 0], [1, "x"]], [[0, 0], [1, 1e300]], [[0, 0]] * (curve.MOST_POINTS + 1)):
        refused(client.post("/api/regression", json={"points": points}), 422, "`points")
    with pytest.raises(curve.OutOfTime):
        curve.fitted(curve.Points(points=[(0, 0), (1, 1)]), deadline=0)
