"""Where data may lie, and in which file there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tribayes._errors import refusal
from tribayes.data.catalogue import DataSet, Member

VARIABLE = "TRIBAYES_DATA"

SUFFIXES = ("", ".gz", ".xz")


def search_places(data_dir: str | os.PathLike[str] | None) -> list[Path]:
    """The folders to search, in order: `data_dir`, $TRIBAYES_DATA, the user's cache. Downloads go to the last."""
    named = (("data_dir", data_dir), (f"${VARIABLE}", os.environ.get(VARIABLE)))
    places = [_existing(argument, folder) for argument, folder in named if folder]
    return [*places, cache()]


def cache() -> Path:
    """$XDG_CACHE_HOME/tribayes, or ~/.cache/tribayes."""
    folder = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(folder):
        return Path(folder) / "tribayes"
    try:
        return Path.home() / ".cache" / "tribayes"
    except RuntimeError:  # a user without a home, as in some containers
        return Path(tempfile.gettempdir()) / "tribayes"


def locate(dataset: DataSet, places: Sequence[Path]) -> dict[Member, Path]:
    """The first file for each member, alone or in an archive; a member without one is left out."""
    found = {}
    for member in dataset.members:
        path = next((path for path in _candidates(dataset, member, places) if path.is_file()), None)
        if path is not None:
            found[member] = path
    return found


def _candidates(dataset: DataSet, member: Member, places: Sequence[Path]) -> Iterator[Path]:
    for place in places:
        for folder in dataset.folders:
            yield from (place / folder / (name + suffix) for name in member.names for suffix in SUFFIXES)
            yield from (place / folder / archive for archive in dataset.archives)


def _existing(argument: str, folder: str | os.PathLike[str]) -> Path:
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise refusal(argument, str(folder), "be an existing folder", "make it, or correct the name")
    return path
