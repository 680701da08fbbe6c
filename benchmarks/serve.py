"""How soon the page has its answer, and what its drawing pad costs in accuracy.

    python -m benchmarks.serve [--threads N] [--quick] [--browser] [--runs RUN … --data-dir DIR]

From a stroke to the answer: the pad's PNG is sent to a server in this process, through every layer of it but the
socket, and answered by 200 sampled networks: LeNet-100 of 28×28 images (untrained: time does not depend on what
was learned), and the digits' network. With --browser, a real one moves its pen over the page, and the time ends with
the frame that shows the answer (`serve_browser.py`). Under 100 ms on two cores is aimed at. With --runs, on MNIST or
the digits, all test images go through the pad, too. Kept in benchmarks/results/serve-cpu.json.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from time import perf_counter, sleep

import torch
import torch.nn.functional as F
from fastapi.testclient import TestClient
from PIL import Image

from benchmarks import machine, serve_browser, store
from tribayes._text import format_table
from tribayes.data import Split
from tribayes.inference import Categorical, MaximumLikelihood
from tribayes.recipes.experiments import experiment
from tribayes.recipes.recipe_run import RecipeRun
from tribayes.recipes.recipe_trainer import build_model
from tribayes.serve import subject as subjects
from tribayes.serve.app import create_app
from tribayes.serve.asking import Options
from tribayes.serve.gallery import png
from tribayes.serve.images import image_of_file
from tribayes.serve.networks import CORRELATED
from tribayes.serve.subject import Subject

CASES = ("mnist-lenet100", "digits")
AIM_MS = 100


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--quick", action="store_true", help="short: does it run?")
    parser.add_argument("--browser", action="store_true", help="measure in a real browser, too")
    parser.add_argument("--runs", type=Path, nargs="+", default=[], help="trained, for the accuracy through the pad")
    parser.add_argument("--data-dir", type=Path, default=None)
    arguments = parser.parse_args(words)
    torch.set_num_threads(arguments.threads)
    figures: dict[str, object] = {}
    rows = []
    ways = {"server": _answers, "browser": serve_browser.milliseconds} if arguments.browser else {"server": _answers}
    for name in CASES:
        found = {way: _described(asked(untrained(name), 5 if arguments.quick else 200)) for way, asked in ways.items()}
        figures[name] = found
        rows += [
            [name, way, each["p50_ms"], each["p99_ms"], "yes" if each["p50_ms"] < AIM_MS else "no"]
            for way, each in found.items()
        ]
    print(format_table(["network", "measured in", "median, ms", "99 %, ms", f"under {AIM_MS} ms"], rows))
    figures["pad"] = [_through_the_pad(run, arguments.data_dir) for run in arguments.runs]
    if not arguments.quick:
        store.save("serve", machine.describe(torch.device("cpu")), figures, store.RESULTS, quick=False)


def _described(milliseconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(milliseconds)
    return {"times": len(ordered), "p50_ms": statistics.median(ordered), "p99_ms": ordered[int(0.99 * len(ordered))]}


def _through_the_pad(run: Path, data_dir: Path | None) -> dict[str, object]:
    subject = Subject(RecipeRun.open(run), data_dir, samples=50)
    drawn, plain = accuracy(subject)
    name, images = subject.run.name, len(subject.images)
    print(
        f"\n{name}: {100 * drawn:.2f} % of {images:,} right through the pad, {100 * plain:.2f} % without; "
        "half a point may be lost"
    )
    return {"run": name, "images": images, "drawn": drawn, "plain": plain}


def untrained(name: str) -> Subject:
    """A run of an experiment that has learned nothing, on images of noise."""
    setting = experiment(name)
    noise = torch.randint(0, 256, (16, *subjects.SHAPES[setting.data]), dtype=torch.uint8)
    labels = torch.zeros(16, dtype=torch.int64)
    folder = Path(tempfile.mkdtemp()) / name
    run = RecipeRun.create(folder, setting.as_dict(), 0, "cpu")
    run.save_model(build_model(setting, 0), MaximumLikelihood(Categorical()), {})
    loading = subjects.load_split
    subjects.load_split = lambda *_: Split(noise, labels, noise, labels)
    try:
        return Subject(run)
    finally:
        subjects.load_split = loading


def accuracy(subject: Subject) -> tuple[float, float]:
    """The shares of test images that are right: as the pad sends them, and as they are."""
    subject.draw()
    factor = 280 // subject.shape[1]
    large = F.interpolate(subject.images, scale_factor=factor)
    sent = torch.stack([image_of_file(png(image), subject, Options())[0] for image in large])
    shares = []
    for images in (sent, subject.images):
        said = torch.cat([subject.ask(CORRELATED, part).mean(0) for part in images.split(50)])
        shares.append(float((said.argmax(-1) == subject.labels).double().mean()))
    return shares[0], shares[1]


def _answers(subject: Subject, times: int) -> list[float]:
    """Milliseconds from sending a drawing to having its answer, with all that the page asks for."""
    file = BytesIO()
    drawing = Image.new("RGBA", (280, 280), "black")
    drawing.paste("white", (128, 40, 152, 240))
    drawing.save(file, "PNG")
    with TestClient(create_app(subject, hosts=("testserver",))) as client:
        while client.get("/api/gallery").json().get("looked_at") != len(subject.images):
            sleep(0.1)
        took = []
        for _ in range(times + 3):
            started = perf_counter()
            reply = client.post(
                "/api/predict", params={"draws": True}, content=file.getvalue(), headers={"content-type": "image/png"}
            )
            took.append(1e3 * (perf_counter() - started))
            reply.raise_for_status()
    return took[3:]


if __name__ == "__main__":
    main()
