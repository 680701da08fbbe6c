"""Writing the page, its pictures and README's part; or saying what is not up to date."""

from __future__ import annotations

from pathlib import Path

from pages.files import out_of_date, with_block, write_texts
from reproduction.pages.blocks import FOLDER, pictures_of, text_of
from reproduction.pages.page_picture import PagePicture
from reproduction.pages.readme import readme_block
from reproduction.pages.results_page import page
from reproduction.results.result_files import Results
from tribayes._errors import refusal
from tribayes._files import make_folder


class Pages:
    """The page and README of a clone of the repository, as the result files in it have them."""

    def __init__(self, root: Path) -> None:
        readme, docs = root / "README.md", root / "docs"
        if not readme.exists():
            raise refusal("--root", str(root), "be a clone of the repository", "it has no README.md; say where one is")
        results = Results.read(root / "results")
        blocks = page(results)
        self.pictures: list[PagePicture] = pictures_of(blocks)
        self.folder = docs / FOLDER
        self.texts = {
            docs / "results.md": text_of(blocks),
            readme: with_block(readme.read_text("utf-8"), "results", readme_block(results)),
        }

    def write(self) -> list[Path]:
        """Write everything; pictures that are up to date stay, strays go."""
        make_folder(self.folder)
        for stray in self._strays():
            stray.unlink()
        changed = [picture for picture in self.pictures if picture.problem(self.folder)]
        for picture in changed:
            picture.save(self.folder)
        write_texts(self.texts)
        return [*self.texts, *(self.folder / picture.name for picture in changed)]

    def problems(self) -> list[str]:
        """What is not as the result files have it; nothing where all is up to date."""
        problems = [f"{path.name} is not what the result files say" for path in out_of_date(self.texts)]
        problems += [problem for picture in self.pictures if (problem := picture.problem(self.folder))]
        return problems + [f"{path.name} belongs to no result" for path in self._strays()]

    def _strays(self) -> list[Path]:
        wanted = {picture.name for picture in self.pictures}
        return sorted(path for path in self.folder.glob("*.png") if path.name not in wanted)
