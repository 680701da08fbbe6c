"""Damaged files of every kind the product reads: refused in words, or read as they were."""

from __future__ import annotations

import io
import json
import math
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from tests.data.samples import Sample, cifar_sample, idx_sample, tar_bytes
from tests.faults.tally import Tally, damaged, is_refusal
from tests.recipes.small import session
from tribayes.data.pictures import FORMATS
from tribayes.data.reading import read
from tribayes.prediction import ClassificationSummary
from tribayes.recipes.image_files import read_image
from tribayes.recipes.recipe_run import RecipeRun
from tribayes.runs import train_sessions
from tribayes.runs.batches import digest
from tribayes.runs.session import read_checkpoint

SCORES = {"examples_tested": 200, "error": 0.02, "nll": 0.07, "brier": 0.03, "ece": 0.01, "auroc_errors": 0.97}
ODD_JSON: list[Any] = [None, True, "", "x", -1, 0, 1e308, 10**30, [], {}, [1, 2], {"a": 1}, 0.5]
ODD_JSON += [10**400, math.nan, -math.inf]
MODES = ("L", "RGB", "RGBA", "P", "1", "LA", "CMYK")


def finished_run(folder: Path) -> RecipeRun:
    """A run of a few iterations, evaluated."""
    started = session(folder / "run", iterations=30)
    train_sessions([started], progress=False)
    started.run.path("evaluation.json").write_text(json.dumps(SCORES))
    return started.run


def damage_tensors(count: int, rng: random.Random, folder: Path) -> Tally:
    """Checkpoints and trained networks: whatever was read is what was written."""
    run, tally = finished_run(folder), Tally()
    reads: dict[Path, Callable[[], str]] = {
        run.checkpoint: lambda: digest(*read_checkpoint(run)),
        run.final: lambda: digest(*run.trained()[::2]),
    }
    whole = {path: (path.read_bytes(), reading()) for path, reading in reads.items()}
    for number in range(count):
        path = list(reads)[number % 2]
        path.write_bytes(damaged(whole[path][0], rng))
        tally.note(*same_or_refused(reads[path], whole[path][1], path.name))
        path.write_bytes(whole[path][0])
    return tally


def damage_json(count: int, rng: random.Random, folder: Path) -> Tally:
    """What a run wrote down: a changed setting or record is noticed, whatever else is changed gives no traceback."""
    run, tally = finished_run(folder), Tally()
    records = run.records()
    reads: dict[str, tuple[Callable[[], Any], Any]] = {
        "config.json": (lambda: RecipeRun.open(run.folder), run),
        "metrics.jsonl": (run.records, records),
        "environment.json": (lambda: run.note_resumption(5), None),
        "evaluation.json": (lambda: ClassificationSummary.from_dict(run.evaluation()), None),
    }
    for number in range(count):
        name = list(reads)[number % len(reads)]
        path, (reading, expected) = run.path(name), reads[name]
        content = path.read_bytes()
        lines = content.splitlines() if name.endswith("l") else [content]
        place = rng.randrange(len(lines))
        lines[place] = changed_json(lines[place], rng) if rng.random() < 0.8 else damaged(lines[place], rng)
        path.write_bytes(b"\n".join(lines) + b"\n")
        if expected is None:
            tally.attempt(reading, name)
        else:
            tally.note(*same_or_refused(lambda r=reading: repr(r()), repr(expected), name))
        path.write_bytes(content)
    return tally


def changed_json(text: bytes, rng: random.Random) -> bytes:
    """JSON with one of its values, anywhere, removed or replaced by another, of its type or not."""
    value = json.loads(text)
    place, key = value, rng.choice(list(value))
    while isinstance(place[key], dict) and place[key] and rng.random() < 0.7:
        place, key = place[key], rng.choice(list(place[key]))
    if rng.random() < 0.2:
        del place[key]
    elif isinstance(place[key], float | int) and rng.random() < 0.5:
        place[key] = place[key] * 2 + 1
    else:
        place[key] = rng.choice(ODD_JSON)
    return json.dumps(value).encode()


def same_or_refused(reading: Callable[[], str], expected: str, what: str) -> tuple[bool, str]:
    try:
        return reading() == expected, f"{what}: read with another content"
    except Exception as error:
        return is_refusal(error), f"{what}: {type(error).__name__}: {error}"


def damage_images(count: int, rng: random.Random, folder: Path) -> Tally:
    """Image files of all formats and modes: an image, or a refusal; no traceback and no warning."""
    wholes = []
    for kind in FORMATS:
        for mode in MODES:
            buffer = io.BytesIO()
            try:
                Image.new(mode, (9, 7)).save(buffer, kind, exif=Image.Exif())
            except (OSError, ValueError):  # a format that has no such mode
                continue
            wholes.append((f"{kind} {mode}", buffer.getvalue()))
    tally, path = Tally(), folder / "x"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(count):
            name, whole = rng.choice(wholes)
            path.write_bytes(damaged(whole, rng))
            tally.attempt(lambda: read_image(path, "mnist"), name)
    return tally


def damage_data(count: int, rng: random.Random, folder: Path) -> Tally:
    """Data sets, plain and packed, and archives: the very images, or a refusal."""
    tally = Tally()
    idx, cifar = idx_sample(), cifar_sample()
    idx.write(folder, ".gz")
    cifar.write(folder)
    archive = folder / str(cifar.dataset.archive)
    archive.write_bytes(tar_bytes(cifar.contents))
    sets: list[tuple[Sample, dict[Any, Path]]] = [
        (idx, {member: folder / f"{member.name}.gz" for member in idx.dataset.members}),
        (cifar, {member: folder / member.name for member in cifar.dataset.members}),
        (cifar, dict.fromkeys(cifar.dataset.members, archive)),
    ]
    expected = [repr([part.tolist() for part in read(s.dataset, found, False)]) for s, found in sets]
    for number in range(count):
        kind = number % len(sets)
        sample, found = sets[kind]
        path = rng.choice(list(found.values()))
        whole = path.read_bytes()
        path.write_bytes(damaged(whole, rng))
        reading = lambda s=sample, f=found: repr([part.tolist() for part in read(s.dataset, f, False)])  # noqa: E731
        tally.note(*same_or_refused(reading, expected[kind], path.name))
        path.write_bytes(whole)
    return tally


torch.set_num_threads(1)  # as in the tests: trials fork, and threads do not survive that
