"""The columns of a table as a network takes them: standardised numbers, and a place for each category.

What a schema knows it has learned from the rows that are trained on, and from no others. A missing number becomes the
mean, with a mark beside it where rows of the training lacked it, too; a missing category is a category.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from tribayes._errors import refusal
from tribayes._text import to_digits
from tribayes.own.columns import (
    CATEGORY,
    NUMBER,
    check_not_swamped,
    check_within,
    kind_of,
    listed,
    numbers_of,
    words_of,
)
from tribayes.runs.records import is_of

MOST_BYTES = 2_000_000_000  # of all rows as the network takes them

_FAR = 10.0  # standard deviations: networks may agree about what lies beyond, though none has learned it
_DAMAGED = "schema.json was changed or is damaged; restore it, or start anew in another folder"


@dataclass(frozen=True)
class Column:
    """One column that the network sees."""

    name: str
    kind: str  # "number" or "category"
    mean: float = 0.0  # of numbers, over the training rows that have it
    std: float = 1.0
    categories: tuple[str, ...] = ()
    missing: bool = False  # whether training rows lacked it: then one more place says so

    @property
    def width(self) -> int:
        """How many inputs of the network it takes."""
        return (1 if self.kind == NUMBER else len(self.categories)) + self.missing

    def value(self, places: Tensor) -> float | str | None:
        """What a cell was that is encoded in these places."""
        if self.kind == CATEGORY:
            found = places[: len(self.categories)].nonzero().flatten().tolist()
            return self.categories[found[0]] if found else None
        if self.missing and bool(places[1]):
            return None
        return float(to_digits(float(places[0]) * self.std + self.mean, 7, self.std))

    @classmethod
    def from_dict(cls, stored: Any) -> Column:
        """One that was stored; every value is checked."""
        kinds = {"name": str, "kind": str, "mean": float, "std": float, "categories": list, "missing": bool}
        if not isinstance(stored, dict) or stored.keys() != kinds.keys():
            raise refusal("column", stored, f"have the entries {list(kinds)}", _DAMAGED)
        for key, kind in kinds.items():
            if not is_of(kind, stored[key]):
                raise refusal(f"column.{key}", stored[key], "be of its type", _DAMAGED)
        words = stored["categories"]
        if not all(isinstance(word, str) for word in words) or len(set(words)) < len(words):
            raise refusal("column.categories", words, "be different words", _DAMAGED)
        column = cls(**stored | {"categories": tuple(words)})
        if column.kind not in (NUMBER, CATEGORY) or column.std <= 0 or bool(words) != (column.kind == CATEGORY):
            raise refusal("column", column.name, "be numbers with a scale, or categories", _DAMAGED)
        return column


@dataclass(frozen=True)
class Schema:
    """All columns that the network sees, in their order.

    Example:
        >>> import pandas
        >>> table = pandas.DataFrame({"age": [20.0, 40.0, None, 60.0], "sex": ["f", "m", "f", "m"]})
        >>> schema, left_out = Schema.learned(table, torch.arange(4))
        >>> schema.encode(table)[0]
        tensor([[-1.2247,  0.0000,  1.0000,  0.0000],
                [ 0.0000,  0.0000,  0.0000,  1.0000],
                [ 0.0000,  1.0000,  1.0000,  0.0000],
                [ 1.2247,  0.0000,  0.0000,  1.0000]])
    """

    columns: tuple[Column, ...]

    @classmethod
    def learned(cls, table: Any, rows: Tensor) -> tuple[Schema, list[str]]:
        """The schema of a table without its target, by these rows of it; and what to know of columns.

        That is which are numbers and which words, and what was left out, and why.
        """
        columns, notes = [], []
        for name in table.columns:
            kind, reason = kind_of(name, table[name])
            column = None
            if kind is not None:
                column = _learned(name, kind, table[name].iloc[rows.numpy()])
                reason = reason if column else "it says the same in all training rows"
            if column is None:
                notes.append(f"column {name!r} is left out: {reason}")
            else:
                columns.append(column)
                notes += [f"column {name!r} is taken for words; {reason}"] if reason else []
        if not columns:
            raise refusal(
                "DATA", list(table.columns), "have a column to learn from", "; ".join(notes) or "ignore fewer"
            )
        schema = cls(tuple(columns))
        names = {"numbers": schema.names(NUMBER), "words": schema.names(CATEGORY)}
        learned = "; ".join(f"{words}: {listed(found)}" for words, found in names.items() if found)
        return schema, [f"learned from {learned}", *notes]

    def names(self, kind: str) -> list[str]:
        """Of the columns of one kind."""
        return [column.name for column in self.columns if column.kind == kind]

    @property
    def width(self) -> int:
        """Inputs of the network."""
        return sum(column.width for column in self.columns)

    def encode(self, table: Any) -> tuple[Tensor, dict[int, str]]:
        """(N, width), float32; and by row, for those that have it, what the training had hardly or not seen."""
        absent = [column.name for column in self.columns if column.name not in table.columns]
        if absent:
            requirement = f"have the columns it was trained on, but {', '.join(map(repr, absent))} is not there"
            raise refusal("DATA", list(table.columns), requirement, "correct the name in its header")
        if (size := 4 * len(table) * self.width) > MOST_BYTES:
            requirement = f"come to at most {MOST_BYTES / 1e9:g} GB as numbers, but it comes to {size / 1e9:.1f}"
            raise refusal("DATA", f"{len(table):,} rows", requirement, "take fewer rows, or leave columns out")
        inputs = torch.zeros(len(table), self.width)
        strange: dict[int, str] = {}
        place = 0
        for column in self.columns:
            part = inputs[:, place : place + column.width]
            place += column.width
            fill = _fill_numbers if column.kind == NUMBER else _fill_categories
            for row, remark in fill(column, table[column.name], part):
                strange[row] = f"{strange[row]}; {remark}" if row in strange else remark
        return inputs, strange

    def decode(self, inputs: Tensor) -> list[dict[str, float | str | None]]:
        """The rows of a table again, from (N, width), to seven digits of a column's spread; what was unseen is None.

        >>> schema = Schema((Column("age", "number", mean=40.0, std=10.0, missing=True),))
        >>> schema.decode(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
        [{'age': 50.0}, {'age': None}]
        """
        parts = inputs.double().split([column.width for column in self.columns], dim=1)
        cells = [[column.value(row) for row in part] for column, part in zip(self.columns, parts, strict=True)]
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]

    def as_list(self) -> list[dict[str, Any]]:
        """Plain values, for JSON."""
        return [asdict(column) | {"categories": list(column.categories)} for column in self.columns]

    @classmethod
    def from_list(cls, stored: Any) -> Schema:
        """One that was stored, checked."""
        if not isinstance(stored, list) or not stored:
            raise refusal("columns", stored, "be a list of columns", _DAMAGED)
        return cls(tuple(map(Column.from_dict, stored)))


def _learned(name: str, kind: str, values: Any) -> Column | None:
    """The column by its values in the training rows; None where they are all the same."""
    missing = bool(values.isna().any())
    if kind == CATEGORY:
        words = sorted({word for word in words_of(values) if word is not None})
        return Column(name, kind, categories=tuple(words), missing=missing) if len(words) + missing > 1 else None
    numbers = numbers_of(name, values)
    known = numbers[~numbers.isnan()]
    if not len(known) or bool((known == known[0]).all()):
        return Column(name, kind, float(known[0]), 1.0, missing=True) if len(known) and missing else None
    check_not_swamped(name, values, numbers)
    mean, std = float(known.mean()), float(known.std(correction=0))
    if not 0 < std < float("inf"):
        requirement = "have a spread that can be computed with"
        raise refusal("DATA", f"column {name!r}", requirement, "rescale it, or remove its outliers")
    return Column(name, kind, mean, std, missing=missing)


Strange = Sequence[tuple[int, str]]  # row, and what the training had not seen there


def _fill_numbers(column: Column, values: Any, part: Tensor) -> Strange:
    numbers = numbers_of(column.name, values)
    absent = numbers.isnan()
    scaled = torch.where(absent, 0.0, (numbers - column.mean) / column.std)
    check_within(column.name, values, scaled)
    part[:, 0] = scaled
    far = (scaled.abs() > _FAR).nonzero().flatten().tolist()
    remarks = [(row, f"{column.name} is {scaled[row].abs():,.0f} standard deviations from its mean") for row in far]
    if column.missing:
        part[:, 1] = absent
        return remarks
    return remarks + [(row, f"{column.name} is missing") for row in absent.nonzero().flatten().tolist()]


def _fill_categories(column: Column, values: Any, part: Tensor) -> Strange:
    places: Mapping[str | None, int] = {word: place for place, word in enumerate(column.categories)}
    if column.missing:
        places = {**places, None: len(column.categories)}
    words = words_of(values)
    codes = torch.tensor([places.get(word, -1) for word in words], dtype=torch.int64)
    known = (codes >= 0).nonzero().flatten()
    part[known, codes[known]] = 1.0
    unseen = (codes < 0).nonzero().flatten().tolist()
    said = {row: "is missing" if words[row] is None else f"{words[row]!r} was not seen in training" for row in unseen}
    return [(row, f"{column.name} {remark}") for row, remark in said.items()]
