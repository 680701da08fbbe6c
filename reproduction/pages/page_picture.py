"""A picture of the page: what it shows, and the file that carries a digest of it.

Pixels differ between versions of matplotlib, so a file is up to date when the digest in its metadata is that of the
numbers it should show.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tribayes._files import store

_KEY = "tribayes-digest"
_DPI = 110
_COLOURS = 128  # of the palette: enough for smooth edges


@dataclass(frozen=True)
class PagePicture:
    """Everything drawn is in `shown`, plain values, and `draw` makes a figure of that alone."""

    name: str  # of the file
    shown: Any
    draw: Callable[[Any], Figure]

    @property
    def digest(self) -> str:
        text = json.dumps([self.draw.__name__, self.shown], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def save(self, folder: Path) -> None:
        """Write the file, with a palette: a third of the size of full colour."""
        drawn = io.BytesIO()
        self.draw(self.shown).savefig(drawn, dpi=_DPI, format="png")
        facts = PngInfo()
        facts.add_text(_KEY, self.digest)
        small = io.BytesIO()
        Image.open(drawn).convert("RGB").quantize(_COLOURS).save(small, format="png", optimize=True, pnginfo=facts)
        store(folder / self.name, small.getvalue())

    def problem(self, folder: Path) -> str | None:
        """What is wrong with the file, if anything."""
        path = folder / self.name
        if not path.exists():
            return f"{self.name} is missing"
        return None if _digest_in(path) == self.digest else f"{self.name} was made from other results"


def _digest_in(path: Path) -> str | None:
    with Image.open(path) as image:
        return image.info.get(_KEY)
