"""What the page is made of: texts, and pictures with a caption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reproduction.pages.page_picture import PagePicture
from reproduction.results.over_seeds import NOT_RUN

FOLDER = "images/results"  # beside the page


@dataclass(frozen=True)
class Shown:
    """Pictures side by side above one caption; those whose results are missing are None."""

    caption: str
    pictures: tuple[PagePicture | None, ...]

    @property
    def drawn(self) -> list[PagePicture]:
        return [picture for picture in self.pictures if picture]

    def __str__(self) -> str:
        if not self.drawn:
            return f"*{self.caption} {NOT_RUN.capitalize()}.*\n"
        width = ' width="48%"' if len(self.drawn) > 1 else ""  # two in a row: three would be too small to read
        words = self.caption.partition(".")[0]
        tags = [f'<img src="{FOLDER}/{picture.name}" alt="{words}"{width}>' for picture in self.drawn]
        part = "" if len(self.drawn) == len(self.pictures) else " Some of these do not occur, or were not run."
        return "\n".join(tags) + f"\n\n*{self.caption}{part}*\n"


Block = str | Shown


def shown(caption: str, *pictures: PagePicture | None) -> Shown:
    return Shown(caption, pictures)


def text_of(blocks: Sequence[Block]) -> str:
    """The page: a blank line between two blocks."""
    return "\n\n".join(str(block).rstrip("\n") for block in blocks) + "\n"


def pictures_of(blocks: Sequence[Block]) -> list[PagePicture]:
    return [picture for block in blocks if isinstance(block, Shown) for picture in block.drawn]
