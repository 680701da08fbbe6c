"""What a column of a table is: numbers, categories, or nothing a network can use; its values as numbers or words."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tribayes._errors import refusal
from tribayes.own.table_file import pandas

NUMBER, CATEGORY = "number", "category"
MOST_CATEGORIES = 100

_MIXED = 0.8  # from this share of numbers on, the words among them are taken for mistakes


def kind_of(name: str, values: Any) -> tuple[str | None, str]:
    """Its kind; or None, and why the column is left out. A column of numbers with a few words in it is refused.

    >>> import pandas
    >>> kind_of("age", pandas.Series([31, 45, None])), kind_of("colour", pandas.Series(["red", "blue", "red"] * 5))
    (('number', ''), ('category', ''))
    >>> kind_of("id", pandas.Series(["a1", "b2", "c3"]))
    (None, 'nearly every row has a word of its own, as of names or free text')
    """
    types = pandas().api.types
    if not name:
        return None, "it has no name, as row numbers have none"
    if not values.notna().any():
        return None, "it is empty"
    if types.is_bool_dtype(values) or (types.is_numeric_dtype(values) and not types.is_complex_dtype(values)):
        return NUMBER, ""
    if types.is_datetime64_any_dtype(values) or types.is_timedelta64_dtype(values):
        return None, "dates are neither numbers nor categories: make e.g. a column of days of them"
    given = values.dropna()
    if not all(isinstance(value, str | int | float | bool) or hasattr(value, "as_tuple") for value in given.head(100)):
        return None, "its cells are neither numbers nor words"
    is_number = _numbers(given).notna()
    if is_number.all():
        return NUMBER, ""
    if is_number.mean() >= _MIXED:
        raise _mixed(name, given, ~is_number)
    words = given.astype(str).nunique()
    if words > MOST_CATEGORIES:
        return None, f"it has {words:,} different words, more than {MOST_CATEGORIES}"
    if 2 * words > len(given):
        return None, "nearly every row has a word of its own, as of names or free text"
    return CATEGORY, ""


def numbers_of(name: str, values: Any) -> Tensor:
    """The column as float64, NaN where a value is missing; a word or an infinity in it is refused by its row."""
    found = _numbers(values)
    words = found.isna() & values.notna()
    if words.any():
        raise _mixed(name, values, words)
    numbers = torch.from_numpy(found.to_numpy(dtype="float64", na_value=float("nan"), copy=True))
    if (infinite := numbers.isinf()).any():
        row = int(values.index[int(infinite.nonzero()[0])]) + 1
        raise refusal("DATA", f"column {name!r}, row {row}", "hold finite numbers", "leave unknown cells empty")
    return numbers


def words_of(values: Any) -> list[str | None]:
    """The column as words, None where a value is missing; whole numbers are written without a point."""
    types = pandas().api.types
    missing = values.isna().tolist()
    if types.is_numeric_dtype(values) and not types.is_bool_dtype(values):
        texts = [f"{value:.15g}" for value in values.astype("float64").tolist()]
    else:
        texts = values.astype(str).tolist()
    return [None if gone else text for gone, text in zip(missing, texts, strict=True)]


def _numbers(values: Any) -> Any:
    return pandas().to_numeric(values, errors="coerce").astype("float64")


def _mixed(name: str, values: Any, words: Any) -> ValueError:
    first = words[words].index[0]
    requirement = f"hold numbers alone, but {int(words.sum()):,} cells are none, the first in row {first + 1}"
    remedy = "correct them, or leave unknown cells empty"
    return refusal("DATA", f"column {name!r}: {values[first]!r}", requirement, remedy)
