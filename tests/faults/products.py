"""Damaged files that users bring or keep: saved models, tables, images sent or in folders, a run of their own data."""

from __future__ import annotations

import io
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from PIL import Image
from torch import nn

import tribayes as tb
from tests.faults.files import changed_json, same_or_refused
from tests.faults.tally import Tally, damaged
from tests.own.cases import fit, rows_of, write_csv, write_images
from tribayes.data.pictures import FORMATS
from tribayes.own.image_folder import FoundImages, read_images, shape_of
from tribayes.own.own_run import OwnRun
from tribayes.own.prepared import prepare_table
from tribayes.own.schema import Schema
from tribayes.own.table_file import read_table
from tribayes.runs.batches import digest
from tribayes.serve.asking import Options
from tribayes.serve.images import image_of_file
from tribayes.serve.ink import light_on_dark
from tribayes.serve.refused import Refused


def damage_models(count: int, rng: random.Random, folder: Path) -> Tally:
    """Files of tb.save: the model that was saved, or a refusal."""
    torch.manual_seed(0)
    path, tally = folder / "model.safetensors", Tally()
    tb.save(tb.to_bayesian(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))), path, notes={"of": "faults"})
    whole, net = path.read_bytes(), nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))

    def reading() -> str:
        return digest(tb.load(path, net).state_dict())

    expected = reading()
    for _ in range(count):
        path.write_bytes(damaged(whole, rng))
        tally.note(*same_or_refused(reading, expected, path.name))
    return tally


def damage_tables(count: int, rng: random.Random, folder: Path) -> Tally:
    """CSV and Parquet as `fit` and `predict` read them: some table, or a refusal in words."""
    import pandas

    rows, tally = rows_of(60), Tally()
    csv, parquet = write_csv(folder / "t.csv", rows), folder / "t.parquet"
    pandas.DataFrame(rows).to_parquet(parquet)
    _, form = prepare_table(csv, "price", (), None, 0)
    assert isinstance(form.inputs, Schema)
    reads: list[Callable[[Path], object]] = [
        lambda path: prepare_table(path, "price", (), None, 0),
        lambda path, schema=form.inputs: schema.encode(read_table(path)),
    ]
    whole = {path: path.read_bytes() for path in (csv, parquet)}
    for number in range(count):
        path = (csv, parquet)[number % 2]
        path.write_bytes(damaged(whole[path], rng))
        reading = rng.choice(reads)
        tally.attempt(lambda p=path, r=reading: r(p), path.name)
    return tally


def damage_own_runs(count: int, rng: random.Random, folder: Path) -> Tally:
    """What a run of one's own data keeps beside a run's usual files: as it was written, or a refusal."""
    assert fit(write_csv(folder / "t.csv", rows_of()), folder / "run", "--target", "price").code == 0
    run, tally = folder / "run", Tally()
    reads: dict[str, Callable[[], str]] = {
        "schema.json": lambda: repr(OwnRun.open(run).form),
        "examples.safetensors": lambda: digest(OwnRun.open(run).prepared.tensors()),
        "config.json": lambda: repr(OwnRun.open(run).setting),
        "calibration.json": lambda: repr(OwnRun.open(run).widths),
    }
    expected = {name: reading() for name, reading in reads.items()}
    for number in range(count):
        name = list(reads)[number % len(reads)]
        path = run / name
        whole = path.read_bytes()
        readable = name.endswith("json") and rng.random() < 0.5
        path.write_bytes(changed_json(whole, rng) if readable else damaged(whole, rng))
        if name == "calibration.json":  # which has no checksum: whatever is possible is believed
            tally.attempt(reads[name], name)
        else:
            tally.note(*same_or_refused(reads[name], expected[name], name))
        path.write_bytes(whole)
    return tally


def damage_pictures(count: int, rng: random.Random, folder: Path) -> Tally:
    """Images of a folder that is trained on, and those that are sent to the server."""
    files = FoundImages.in_folder(write_images(folder / "images", 10)).files
    sent = _pictures()
    subject: Any = SimpleNamespace(shape=(1, 28, 28), preparation=light_on_dark)
    tally, options = Tally(), Options()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(count):
            if number % 2:
                path = rng.choice(files)
                whole = path.read_bytes()
                path.write_bytes(damaged(whole, rng))
                tally.attempt(lambda p=path: read_images([p], shape_of([p], None)), path.name)
                path.write_bytes(whole)
            else:
                kind, whole = rng.choice(sent)
                content = damaged(whole, rng)
                tally.attempt(lambda c=content: _uploaded(c, subject, options), kind)
    return tally


def _uploaded(content: bytes, subject: Any, options: Options) -> None:
    try:
        image_of_file(content, subject, options)
    except Refused as error:
        raise ValueError(error.words) from error


def _pictures() -> list[tuple[str, bytes]]:
    found = []
    for kind in FORMATS:
        buffer = io.BytesIO()
        Image.linear_gradient("L").resize((20, 16)).convert("RGB").save(buffer, kind)
        found.append((kind, buffer.getvalue()))
    return found
