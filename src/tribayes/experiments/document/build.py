"""Writing the page, its pictures and README's table; or saying what is not up to date."""

from __future__ import annotations

from pathlib import Path

from tribayes._errors import refusal
from tribayes._files import make_folder, store
from tribayes.experiments.document.blocks import FOLDER, pictures_of, text_of
from tribayes.experiments.document.page import page
from tribayes.experiments.document.readme import readme_block, replaced
from tribayes.experiments.results import Results


class Places:
    """Where things lie in a clone of the repository."""

    def __init__(self, root: Path) -> None:
        self.results = root / "results"
        self.page = root / "docs" / "results.md"
        self.pictures = root / "docs" / FOLDER
        self.readme = root / "README.md"
        if not self.readme.exists():
            raise refusal("--root", str(root), "be a clone of the repository", "it has no README.md; say where one is")


def write_document(root: Path) -> list[Path]:
    """Write everything under the repository's folder; pictures that are up to date stay, others go."""
    places, results = Places(root), Results.read(root / "results")
    blocks = page(results)
    make_folder(places.pictures)
    pictures = pictures_of(blocks)
    for stray in _strays(places, {picture.name for picture in pictures}):
        stray.unlink()
    changed = [picture for picture in pictures if picture.problem(places.pictures)]
    for picture in changed:
        picture.save(places.pictures)
    store(places.page, text_of(blocks).encode())
    store(places.readme, replaced(places.readme.read_text("utf-8"), readme_block(results)).encode())
    return [places.page, places.readme, *(places.pictures / picture.name for picture in changed)]


def document_problems(root: Path) -> list[str]:
    """What is not as the result files have it; nothing where all is up to date."""
    places, results = Places(root), Results.read(root / "results")
    blocks = page(results)
    pictures = pictures_of(blocks)
    problems = []
    if not places.page.exists() or places.page.read_bytes() != text_of(blocks).encode():
        problems.append(f"{places.page.name} is not what the result files say")
    readme = places.readme.read_text("utf-8")
    if replaced(readme, readme_block(results)) != readme:
        problems.append("README.md's table is not what the result files say")
    problems += [problem for picture in pictures if (problem := picture.problem(places.pictures))]
    problems += [f"{path.name} belongs to no result" for path in _strays(places, {each.name for each in pictures})]
    return problems


def _strays(places: Places, wanted: set[str]) -> list[Path]:
    return sorted(path for path in places.pictures.glob("*.png") if path.name not in wanted)
