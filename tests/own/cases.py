"""Small tables and folders of images, and the command line on them."""

from __future__ import annotations

import random
from pathlib import Path

from PIL import Image

from tests.recipes.small import Answer, tribayes

QUICK = ("--iterations", 30, "--threads", 1, "--set", "kl_weight=0.3")


def rows_of(count: int = 200, seed: int = 0) -> list[dict[str, object]]:
    """Rows with numbers, words, missing cells, and two targets that follow from them but for noise."""
    source = random.Random(seed)
    rows: list[dict[str, object]] = []
    for number in range(count):
        height, colour = source.gauss(170, 10), source.choice(["red", "green", "blue"])
        price = 0.5 * height + 20 * (colour == "red") + source.gauss(0, 2)
        rows.append(
            {
                "id": f"person {number}",
                "height": "" if source.random() < 0.1 else f"{height:.2f}",
                "colour": "" if source.random() < 0.05 else colour,
                "always": 7,
                "price": f"{price:.3f}",
                "dear": "yes" if price > 92 else "no",
            }
        )
    return rows


def write_csv(path: Path, rows: list[dict[str, object]], separator: str = ",") -> Path:
    lines = [separator.join(rows[0]), *(separator.join(map(str, row.values())) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_images(folder: Path, count: int = 30, size: tuple[int, int] = (8, 8)) -> Path:
    """Dark and light pictures, a sub-folder each."""
    source = random.Random(0)
    for name, level in (("dark", 60), ("light", 190)):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = bytes(max(0, min(255, round(source.gauss(level, 30)))) for _ in range(size[0] * size[1]))
            Image.frombytes("L", size, pixels).save(folder / name / f"{number}.png")
    return folder


def fit(data: Path, run: Path, *words: object) -> Answer:
    """Train for a moment."""
    return tribayes("fit", data, "--run", run, *QUICK, *words)


def complaint(*words: object) -> str:
    """What is said to words that are refused: one sentence, and no traceback."""
    answer = tribayes(*words)
    assert answer.code == 1, answer
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    return answer.err.removeprefix("error: ").removesuffix("\n")
