"""A run on a table, asked row by row: the answers are those of `tribayes predict`, and what is no row is refused."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi.testclient import TestClient
from PIL import Image

from tests.own.cases import fit, rows_of, write_csv, write_images
from tests.recipes.small import tribayes
from tests.serve.serving import client_of, until
from tribayes.own.image_folder import read_images
from tribayes.own.own_run import OwnRun
from tribayes.serve.subject import Subject
from tribayes.serve.table import TableSubject

pytest.importorskip("pandas", reason="tables are read with pandas")

SAMPLES = 20
NEW: list[dict[str, object]] = [
    {"height": 171.5, "colour": "red"},
    {"height": 190, "colour": None},
    {"height": None, "colour": "mauve"},
]
ODD = [
    ({"height": 171.5}, "but 'colour' is not there"),
    ({"height": 171.5, "colour": "red", "weight": 1}, "`row` has 'weight', but the columns are colour, height"),
    ({"height": "tall", "colour": "red"}, "hold numbers alone"),
    ({"height": 1e300, "colour": "red"}, "must lie within 1,000,000 standard deviations"),
    ({"height": [1], "colour": "red"}, "cannot be taken"),
]


@pytest.fixture(scope="module", params=["price", "dear"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Once of values, once of classes."""
    folder, other = tmp_path_factory.mktemp("table"), {"price": "dear", "dear": "price"}[request.param]
    table = write_csv(folder / "people.csv", rows_of())
    words = ("--target", request.param, "--ignore", other, "--set", "family=tridiagonal")
    assert fit(table, folder / "run", *words).code == 0
    return folder / "run"


@pytest.fixture(scope="module")
def subject(run: Path) -> TableSubject:
    return TableSubject(OwnRun.open(run), SAMPLES)


@pytest.fixture(scope="module")
def client(subject: TableSubject) -> Iterator[TestClient]:
    with client_of(subject) as made:
        yield made


def ask(client: TestClient, row: dict[str, object], **query: Any) -> Any:
    return client.post("/api/row", params=query, json={"row": row})


def test_an_answer_is_that_of_predict(client: TestClient, run: Path) -> None:
    """By the command line, which reads a file."""
    cells = [{name: "" if value is None else value for name, value in row.items()} for row in NEW]
    data = write_csv(run.parent / "new.csv", cells)
    assert tribayes("predict", run, data, "--samples", SAMPLES).code == 0
    with (run / "predictions" / "new.csv").open(newline="") as file:
        expected = list(csv.DictReader(file))
    for row, line in zip(NEW, expected, strict=True):
        answer = ask(client, row, draws=True).json()
        assert answer["certain"] is (line["certain"] == "yes")
        if "target" in answer:
            numbers = [
                answer["prediction"],
                *answer["promised"],
                answer["std"],
                answer["aleatoric"],
                answer["epistemic"],
            ]
            names = ["prediction", "lower", "upper", "std", "aleatoric", "epistemic"]
            assert answer["remark"] == line["remark"]
            assert sum(answer["draws"]) / SAMPLES == pytest.approx(answer["prediction"], rel=1e-5)
        else:
            place = answer["classes"].index(line["prediction"])
            entropy = answer["entropy"]
            numbers = [answer["probabilities"][place], *answer["intervals"][place]]
            numbers += [entropy["total"], entropy["aleatoric"], entropy["epistemic"]]
            names = ["probability", "lower", "upper", "entropy", "aleatoric", "epistemic"]
            assert answer["label"] == line["prediction"]
            assert " | ".join(answer["set"]) == line["set"]
            assert answer["changes"] == ([line["remark"]] if line["remark"] else [])
        assert numbers == pytest.approx([float(line[name]) for name in names], rel=2e-4, abs=2e-6)


def test_three_networks_can_be_asked(client: TestClient) -> None:
    learned, without, mean = (
        ask(client, NEW[0], network=name).json() for name in ("correlated", "uncorrelated", "mean")
    )
    assert learned != without
    assert (mean["samples"], mean["certain"]) == (1, None)
    if "target" in mean:
        assert (mean["epistemic"], mean["average"], mean["promised"]) == (0, None, None)
        assert without["promised"] is None  # it was not of these networks that 95 % was found to hold


@pytest.mark.parametrize(("row", "words"), ODD)
def test_what_is_no_row_is_refused(client: TestClient, row: dict[str, object], words: str) -> None:
    answer = ask(client, row)
    assert (answer.status_code, words in answer.json()["error"]) == (422, True), answer.text


def test_the_form_and_the_test_rows_are_those_of_the_table(client: TestClient, subject: TableSubject) -> None:
    described = client.get("/api/run").json()
    height, colour = described["columns"]
    assert (described["kind"], described["test_rows"], described["data"]) == ("table", 40, "people.csv")
    assert 130 < height["low"] < 170 < height["high"] < 210
    assert colour["categories"] == ["blue", "green", "red"]
    written = {(row["height"], row["colour"]) for row in rows_of()}
    for number in range(40):
        found = client.get(f"/api/test/{number}").json()
        row = found["row"]
        cells = ("" if row["height"] is None else f"{row['height']:.2f}", row["colour"] or "")
        assert cells in written
        encoded, _ = subject.schema.encode(pytest.importorskip("pandas").DataFrame([row]))
        assert torch.allclose(encoded[0], subject.rows[number], atol=1e-5)
    assert client.get("/api/test/40").status_code == 404


def test_the_gallery_shows_what_was_asked_for(client: TestClient) -> None:
    until(lambda: client.app.state.service.gallery.ready)
    shown = {
        kind: client.get("/api/gallery", params={"kind": kind, "limit": 60}).json()["rows"]
        for kind in ("wrong", "most uncertain", "confidently wrong", "quite certain", "all")
    }
    assert [row["number"] for row in shown["all"]] == list(range(40))
    assert all(row["certain"] for row in shown["quite certain"] + shown["confidently wrong"])
    assert len(shown["most uncertain"]) == 40
    found = client.get("/api/gallery", params={"kind": "all", "limit": 5}).json()
    assert (len(found["rows"]), found["found"]) == (5, 40)
    for row in shown["all"]:
        value = row["interval"] is not None
        wrong = (
            not row["interval"][0] <= row["true"] <= row["interval"][1] if value else row["true"] != row["predicted"]
        )
        assert (row in shown["wrong"]) is wrong
        assert (row in shown["confidently wrong"]) is (wrong and row["certain"])
        answer = client.get("/api/gallery", params={"true": "yes"})
        words = "are classes, but this run is of values" if value else '"true":"yes"'
        assert (answer.status_code, words in answer.text) == (422 if value else 200, True)


def test_values_that_lie_far_from_zero_have_the_digits_that_tell_them_apart(tmp_path: Path) -> None:
    far = 1e9
    rows = [{"height": f"{far + number / 10:.1f}", "price": f"{far + number % 7 + 0.5:.3f}"} for number in range(100)]
    assert fit(write_csv(tmp_path / "table.csv", rows), tmp_path / "run", "--target", "price").code == 0
    with client_of(TableSubject(OwnRun.open(tmp_path / "run"), SAMPLES)) as client:
        until(lambda: client.app.state.service.gallery.ready)
        (height,) = client.get("/api/run").json()["columns"]
        assert far <= height["low"] < height["high"] <= far + 10
        truths = {client.get(f"/api/test/{number}").json()["true"] for number in range(20)}
        assert 1 < len(truths) <= 7
        said = ask(client, {"height": far + 5}, draws=True).json()
        assert len({*said["interval"], *said["average"], said["prediction"], *said["draws"]}) > SAMPLES
        for row in client.get("/api/gallery", params={"kind": "all"}).json()["rows"]:
            lower, upper = row["interval"]
            assert (lower + upper) / 2 == pytest.approx(row["predicted"], abs=0.01, rel=0)
            assert upper - lower > 1


def test_images_and_rows_have_an_address_each(client: TestClient) -> None:
    answer = client.post("/api/predict", content=b"x", headers={"content-type": "image/png"})
    assert (answer.status_code, answer.json()["error"]) == (404, "this run is of a table; send a row to /api/row.")


def test_a_folder_of_images_is_served_too(tmp_path: Path) -> None:
    assert fit(write_images(tmp_path / "photos"), tmp_path / "run").code == 0
    run = OwnRun.open(tmp_path / "run")
    subject = Subject(run, samples=SAMPLES)
    with client_of(subject) as client:
        told = client.get("/api/run").json()
        assert (told["data"], told["classes"], told["stroke"]) == ("photos", ["dark", "light"], None)
        assert told["networks"] == ["correlated", "mean"]  # as learned; there are no correlations to leave out
        pixels = subject.images[3]
        said = client.post("/api/predict", json={"pixels": pixels[0].tolist()}).json()
        part = run.part("test", torch.device("cpu"))
        pred = run.ask(run.network(torch.device("cpu")), part.inputs[3:4], SAMPLES)
        assert said["probabilities"] == pytest.approx(pred.mean[0].tolist(), abs=5e-6)

        photo = tmp_path / "photo.png"  # larger, and of another shape: made small as `tribayes predict` does it
        Image.effect_noise((70, 40), 80).save(photo)
        said = client.post("/api/predict", content=photo.read_bytes(), headers={"content-type": "image/png"}).json()
        assert said["changes"] == ["resized from 70×40 to 8×8, stretched"]
        seen = torch.tensor(said["seen"])
        assert torch.allclose(seen, read_images([photo], subject.shape)[0] / 255, atol=1e-4)
        assert ask(client, {"height": 1}).status_code == 404
