"""Data read and made into numbers, in three parts, with all that is needed to do the same to new data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tribayes._errors import refusal
from tribayes.own.columns import check_not_swamped, check_within
from tribayes.own.image_folder import FoundImages, Pixels, read_images, shape_of
from tribayes.own.parts import Parts, check_enough, parts_of
from tribayes.own.schema import Schema
from tribayes.own.table_file import read_table
from tribayes.own.target import Target, class_indices, find_target, target_values, task_of


@dataclass(frozen=True)
class Form:
    """What schema.json holds: how data become inputs and targets, which rows did what, and what was left out."""

    target: Target
    inputs: Schema | Pixels
    notes: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one input."""
        return (self.inputs.width,) if isinstance(self.inputs, Schema) else self.inputs.shape

    def scaled(self, inputs: Tensor) -> Tensor:
        """As the network takes them: those of a table are stored so already."""
        return inputs if isinstance(self.inputs, Schema) else self.inputs.scaled(inputs)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        inputs = self.inputs
        how = {"columns": inputs.as_list()} if isinstance(inputs, Schema) else {"pixels": inputs.as_dict()}
        return {"target": self.target.as_dict(), **how, "notes": list(self.notes)}

    @classmethod
    def from_dict(cls, stored: Any) -> Form:
        """One that was stored; every value is checked."""
        remedy = "schema.json was changed or is damaged; restore it, or start anew in another folder"
        if not isinstance(stored, dict) or stored.keys() not in (
            {"target", "columns", "notes"},
            {"target", "pixels", "notes"},
        ):
            raise refusal("schema.json", stored, "have target, notes, and columns or pixels", remedy)
        notes = stored["notes"]
        if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
            raise refusal("notes", notes, "be sentences", remedy)
        columns = stored.get("columns")
        inputs = Pixels.from_dict(stored["pixels"]) if columns is None else Schema.from_list(columns)
        return cls(Target.from_dict(stored["target"]), inputs, tuple(notes))


@dataclass(frozen=True)
class Prepared:
    """All examples: inputs (float32 of a table, uint8 of images), targets (classes, or (N, 1) in standard units)."""

    inputs: Tensor
    targets: Tensor
    parts: Parts

    def tensors(self) -> dict[str, Tensor]:
        """For a file."""
        return {"inputs": self.inputs, "targets": self.targets, **self.parts._asdict()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Prepared:
        """From a file, whose checksum was looked at."""
        return cls(tensors["inputs"], tensors["targets"], Parts(*(tensors[name] for name in Parts._fields)))


def prepare_table(
    path: Path, target: str | None, ignore: Sequence[str], task: str | None, seed: int
) -> tuple[Prepared, Form]:
    """Read a table and divide it. What is known of columns comes from training rows alone."""
    table = read_table(path)
    name = find_target(table, target)
    remedy = "correct the name; of several columns each has an --ignore of its own"
    for column in ignore:
        if column == name or column not in table.columns:
            raise refusal("--ignore", column, "be a column of the table, and not the target", remedy)
    known = table[name].notna()
    notes = (
        [f"{int((~known).sum()):,} of {len(table):,} rows have no {name!r}, and are left out"]
        if not known.all()
        else []
    )
    if not known.any():
        raise refusal("--target", name, "be known in some rows, but it is empty in all", "choose another column")
    check_enough(int(known.sum()), "rows")
    table = table[known]  # whose index still counts all rows, for the words of errors
    labels, rest = table[name], table.drop(columns=[name, *ignore])
    if task_of(name, labels, task) == "classification":
        targets, classes = class_indices(name, labels)
        parts, found = parts_of(targets, seed, "rows"), Target(name, classes)
    else:
        values = target_values(name, labels)
        parts = parts_of(values, seed, "rows")
        known_values = values[parts.train]
        check_not_swamped(name, labels.iloc[parts.train.numpy()], known_values)
        mean, std = float(known_values.mean()), float(known_values.std())
        if not std > 0:
            raise refusal("--target", name, "differ among the training rows", "gather rows that differ")
        scaled = (values - mean) / std
        check_within(name, labels, scaled)
        targets, found = scaled.float().unsqueeze(1), Target(name, (), mean, std)
    schema, told = Schema.learned(rest, parts.train)
    inputs, _ = schema.encode(rest)
    return Prepared(inputs, targets, parts), Form(found, schema, (found.words, *told, parts.words(), *notes))


def prepare_images(folder: Path, size: int, seed: int) -> tuple[Prepared, Form]:
    """Read a folder of images and divide them. Means and scales of pixels come from training images alone."""
    found = FoundImages.in_folder(folder)
    parts = parts_of(found.labels, seed, "images")
    images = read_images(found.files, shape_of(found.files, size or None))
    target, pixels = Target("class", found.classes), Pixels.learned(images[parts.train])
    form = Form(target, pixels, (target.words, pixels.words, parts.words("images"), *found.notes))
    return Prepared(images, found.labels, parts), form


def as_examples(form: Form, prepared: Prepared, rows: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
    """Inputs and targets of some rows as the network takes them, on a device."""
    return form.scaled(prepared.inputs[rows].to(device)), prepared.targets[rows].to(device)
