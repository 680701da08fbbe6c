"""Ways to reach a server: in this process, or as a process of its own."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import torch.nn.functional as F
from fastapi.testclient import TestClient
from PIL import Image
from torch import Tensor

from tribayes.serve.app import create_app
from tribayes.serve.gallery import png
from tribayes.serve.subject import Subject


class Served(NamedTuple):
    """A server: its address, its process, and the file of its connections."""

    address: str
    process: subprocess.Popen[str]
    watched: Path


@contextmanager
def client_of(subject: Subject, wait: bool = True, patience: float = 30, **options: Any) -> Iterator[TestClient]:
    """A client of a server that is ready, unless it is not waited for."""
    app = create_app(subject, hosts=("testserver",), **options)
    with TestClient(app, raise_server_exceptions=False) as client:
        ends = time.monotonic() + patience
        while wait and client.get("/readyz").status_code != 200:
            assert time.monotonic() < ends
            time.sleep(0.01)
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
