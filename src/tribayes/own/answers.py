"""New rows or images asked of a run: a CSV table with a line for each, written whole or not at all."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from tribayes._errors import refusal
from tribayes._files import make_folder, shortened, store
from tribayes._progress import progress_bar
from tribayes._text import printable, to_digits
from tribayes.distributed.processes import processes
from tribayes.nn.module import BayesianModule
from tribayes.own.columns import CATEGORY
from tribayes.own.image_folder import images_in, read_images
from tribayes.own.own_run import LEVEL, OwnRun
from tribayes.own.prepared import Form
from tribayes.own.schema import Schema
from tribayes.own.table_file import TABLE_ENDINGS, read_table
from tribayes.prediction import ClassPredictive, Predictive, RegressionPredictive

VALUES = ("prediction", "lower", "upper", "std", "certain", "aleatoric", "epistemic")
CLASSES = ("prediction", "probability", "lower", "upper", "certain", "entropy", "aleatoric", "epistemic", "set")

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # what formulas begin with
_AT_ONCE = 10_000  # rows asked at once: bounds the memory, and changes no answer


class _Question(NamedTuple):
    """What is asked about: a name and inputs for each row or image, and what the training had not seen in it."""

    first: str  # the first column: "row" or "image"
    names: list[str]
    inputs: Tensor  # as they are stored; `Form.scaled` makes them what the network takes
    strange: dict[int, str]
    file: str  # where the answers go, in the run's folder of predictions

    @classmethod
    def about(cls, files: Sequence[Path], form: Form) -> _Question:
        """Read a table, or images."""
        if isinstance(form.inputs, Schema):
            if len(files) != 1:
                raise refusal("DATA", len(files), "be one table", "ask about one at a time")
            table = read_table(files[0], columns=1, words=form.inputs.names(CATEGORY))
            inputs, strange = form.inputs.encode(table)
            names = [str(number) for number in range(1, len(inputs) + 1)]
            return cls("row", names, inputs, strange, f"{shortened(files[0].stem)}.csv")
        found = list(_images(files))
        return cls(
            "image", [printable(file) for file in found], read_images(found, form.inputs.shape), {}, "images.csv"
        )


def answer(
    run: OwnRun, files: Sequence[Path], out: Path | None, model: BayesianModule, samples: int, progress: bool
) -> tuple[Path, list[str]]:
    """Write the table of answers to `out`, by default into the run's folder; and what is to be said about it.

    Several processes ask together, and the first writes.
    """
    question = _Question.about(files, run.form)
    path = out or run.path("predictions") / question.file
    if path.is_dir() or path.resolve() in {file.resolve() for file in files}:
        raise refusal("--out", str(path), "be a file to write, and not what is asked about", "choose another name")
    if path.suffix.lower() in TABLE_ENDINGS and path.suffix.lower() != ".csv":
        raise refusal("--out", str(path), "be a CSV file: nothing else is written", "end its name in .csv")
    text = StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([question.first, *(CLASSES if run.form.target.classes else VALUES), "remark"])
    with progress_bar("asking", len(question.inputs), progress and processes().first) as advance:
        for start in range(0, len(question.inputs), _AT_ONCE):
            lines = _lines(run, model, question, slice(start, start + _AT_ONCE), samples)
            for row, line in enumerate(lines, start):
                cells = [question.names[row], *line, question.strange.get(row, "")]
                writer.writerow([inert(cell) for cell in cells])
                advance()
    if processes().first:
        make_folder(path.parent)
        store(path, text.getvalue().encode())
    return path, _said(question)


def inert(cell: str) -> str:
    """A cell that no spreadsheet computes: what it would take for a formula, and is no number, gets an apostrophe.

    Names of files and words of a table may come from anyone.

    >>> inert("=1+1"), inert("-0.5"), inert("red")
    ("'=1+1", '-0.5', 'red')
    """
    if not cell.startswith(_FORMULAS):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def _lines(run: OwnRun, model: BayesianModule, question: _Question, part: slice, samples: int) -> Iterator[list[str]]:
    """The answers about a part of what is asked about."""
    inputs = question.inputs[part].to(next(model.parameters()).device)
    pred = run.ask(model, run.form.scaled(inputs), samples)
    strange = torch.tensor([part.start + row in question.strange for row in range(len(inputs))])
    return _values(run, pred, strange) if isinstance(pred, RegressionPredictive) else _classes(run, pred, strange)


def _images(files: Sequence[Path]) -> Iterator[Path]:
    """Files as they are, folders by their images and those of their sub-folders."""
    for path in files:
        if not path.is_dir():
            yield path
            continue
        places = [path, *sorted(inner for inner in path.iterdir() if inner.is_dir())]
        found = [image for place in places for image in images_in(place)[0]]
        if not found:
            raise refusal("IMAGE", str(path), "be an image or a folder with images", "correct the name")
        yield from found


def _values(run: OwnRun, pred: RegressionPredictive, strange: Tensor) -> Iterator[list[str]]:
    lower, upper = run.widths.conformal.intervals(pred, LEVEL)
    usual = (pred.std <= run.widths.usual) & ~strange.unsqueeze(1)
    columns = (pred.mean, lower, upper, pred.std, usual, pred.aleatoric, pred.epistemic)
    for row in zip(*(column.squeeze(1).tolist() for column in columns), strict=True):
        yield [*(to_digits(value, 6, run.form.target.std) for value in row[:3]), *map(_cell, row[3:])]


def _classes(run: OwnRun, pred: Predictive, strange: Tensor) -> Iterator[list[str]]:
    assert isinstance(pred, ClassPredictive)
    names, label = run.form.target.classes, pred.label
    lower, upper = (bound.gather(1, label.unsqueeze(1)).squeeze(1) for bound in pred.interval(LEVEL))
    certain = pred.certain(LEVEL) & ~strange
    columns = (pred.confidence, lower, upper, certain, pred.entropy, pred.aleatoric, pred.epistemic)
    sets = run.widths.conformal.sets(pred, LEVEL)
    for own, chosen, row in zip(label.tolist(), sets, zip(*(c.tolist() for c in columns), strict=True), strict=True):
        members = " | ".join(names[place] for place in chosen.nonzero().flatten().tolist())
        yield [names[own], *(_cell(value) for value in row), members]


def _cell(value: float | bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}"


def _said(question: _Question) -> list[str]:
    strange, rows = question.strange, len(question.inputs)
    if not strange:
        return []
    first = min(strange)
    return [
        f"{len(strange):,} of {rows:,} rows hold what the training had hardly or not seen, and are called uncertain; "
        f"row {first + 1}: {printable(strange[first])}"
    ]
