"""Short runs on the embedded digits, and how to look at them."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
import torch

from tribayes.cli import main
from tribayes.data import load
from tribayes.recipes.examples import prepare
from tribayes.recipes.experiments import experiment
from tribayes.recipes.recipe_run import RecipeRun
from tribayes.recipes.recipe_trainer import RecipeTrainer
from tribayes.recipes.setting import Setting
from tribayes.runs import Examples, Session
from tribayes.runs.batches import digest

CPU = torch.device("cpu")


def setting(iterations: int = 25, **changes: Any) -> Setting:
    return experiment("digits").changed(iterations=iterations, **changes)


@cache
def digits() -> tuple[Examples, Examples]:
    return prepare("digits", load("digits"), CPU)


def trainer(seed: int = 0, **changes: Any) -> RecipeTrainer:
    return RecipeTrainer(setting(**changes), digits()[0], seed)


def new_run(folder: Path, seed: int = 0, **changes: Any) -> RecipeRun:
    return RecipeRun.create(folder, setting(**changes).as_dict(), seed, CPU)


def session(folder: Path, seed: int = 0, seconds: float = 1e9, **changes: Any) -> Session:
    """A new run in a folder, or the one that is there; checkpoints only when told to, unless `seconds` says so."""
    new = not (folder / "config.json").exists()
    run = new_run(folder, seed, **changes) if new else RecipeRun.open(folder)
    return Session(run, RecipeTrainer(run.setting, digits()[0], run.seed), digits()[1], seconds)


def change_config(path: Path, checked: bool = True, **changes: Any) -> None:
    """Change a config.json as another version or machine would have written it, or by hand: with the old checksum."""
    content = json.loads(path.read_text()) | changes
    if checked:
        content["sha256"] = digest({}, {key: value for key, value in content.items() if key != "sha256"})
    path.write_text(json.dumps(content))


def timeless(path: Path) -> list[dict[str, Any]]:
    """The records of a metrics.jsonl without their times, and the checksums, which are of the times, too."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(record.pop("seconds") >= 0 and len(record.pop("sha256")) == 16 for record in records)
    return records


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class Answer(NamedTuple):
    """What a command left: its exit code, its output, its complaints."""

    code: int
    out: str
    err: str


def tribayes(*words: object) -> Answer:
    """The command line, in this process."""
    out, err = StringIO(), StringIO()
    with (
        patch.object(sys, "argv", ["tribayes", *map(str, words)]),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    return Answer(int(ended.value.code or 0), out.getvalue(), err.getvalue())
