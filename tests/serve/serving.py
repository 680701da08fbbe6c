"""Ways to reach a server: in this process, or as a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import torch.nn.functional as F
from fastapi.testclient import TestClient
from PIL import Image
from torch import Tensor

from tests.patience import PATIENCE
from tribayes.serve.app import create_app
from tribayes.serve.gallery import png
from tribayes.serve.limits import Limits
from tribayes.serve.subject import Subject
from tribayes.serve.table import TableSubject

PATIENT = Limits(seconds=PATIENCE)


class Served(NamedTuple):
    """A server: its address, its process, and the files of its connections and of what it logs."""

    address: str
    process: subprocess.Popen[str]
    watched: Path
    log: Path

    def end(self) -> None:
        """Tell it to end, and wait until it has."""
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=PATIENCE)


@contextmanager
def serving(run: Path, folder: Path) -> Iterator[Served]:
    """`tribayes serve RUN` as a process of its own, which writes down whom it connects to. Its log goes to a file: a
    pipe that nobody reads would be full after some hundred requests, and then stop it."""
    watched, log = folder / "connections", folder / "log"
    watched.touch()
    words = [sys.executable, "-m", "tests.serve.watched", str(watched), "serve", str(run), "--port", "0"]
    words += ["--threads", "1", "--seconds", str(int(PATIENCE))]
    with log.open("w") as file:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=file, text=True, env=os.environ)
    try:
        assert process.stdout is not None
        said = ""
        while not (found := re.search(r"http://\S+?:\d+", said)):
            line = process.stdout.readline()
            assert line, log.read_text()
            said += line
        made = Served(found[0], process, watched, log)
        yield made
        if process.poll() is None:
            made.end()
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def until(holds: Callable[[], Any], seconds: float = PATIENCE, what: str = "it") -> Any:
    """Wait for something that becomes true, and return it."""
    ends = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < ends, f"{what} never came"
        time.sleep(0.02)
    return found


@contextmanager
def client_of(
    subject: Subject | TableSubject, wait: bool = True, limits: Limits = PATIENT, **options: Any
) -> Iterator[TestClient]:
    """A client of a server that is ready, unless it is not waited for."""
    app = create_app(subject, limits, hosts=("testserver",), **options)
    with TestClient(app, raise_server_exceptions=False) as client:
        if wait:
            until(lambda: client.get("/readyz").status_code == 200, what="readiness")
        yield client


def on_the_pad(image: Tensor) -> bytes:
    """A test image (1, 8, 8) as the page's pad shows it: larger, each pixel a block."""
    return png(F.interpolate(image.unsqueeze(0), scale_factor=35)[0])


def file_of(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    content = BytesIO()
    image.save(content, kind, **options)
    return content.getvalue()


def stroke(mode: str = "L", ground: Any = 0, ink: Any = 255, size: int = 100) -> Image.Image:
    """A vertical stroke: a one."""
    image = Image.new(mode, (size, size), ground)
    image.paste(ink, (int(0.45 * size), int(0.15 * size), int(0.55 * size), int(0.85 * size)))
    return image
