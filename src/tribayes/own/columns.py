"""What a column of a table is: numbers, categories, or nothing a network can use; its values as numbers or words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tribayes._errors import refusal
from tribayes.own.table_file import MIXED, pandas

NUMBER, CATEGORY = "number", "category"
MOST_CATEGORIES = 100
MOST_SPREADS = 1e6  # between a value and the mean: what lies farther is a mistake, and float32 overflows by its square

_MOST, _LISTED = 0.5, 12

_DATE = r"\s*\d{1,4}([-/.])\d{1,2}\1\d{1,4}([T ].*)?"
_WRITTEN_NUMBER = r"\s*[-+$€£]?\s*\d[\d.,' ]*[%$€£]?\s*"
_IS_DATE = "dates are neither numbers nor categories: make e.g. a column of days of them"


def kind_of(name: str, values: Any) -> tuple[str | None, str]:
    """Its kind; or None, and why the column is left out. A column of numbers with a few words in it is refused.

    Words that may have been meant as numbers come with that doubt.

    >>> import pandas
    >>> kind_of("age", pandas.Series([31, 45, None])), kind_of("colour", pandas.Series(["red", "blue", "red"] * 5))
    (('number', ''), ('category', ''))
    >>> kind_of("id", pandas.Series(["a1", "b2", "c3"]))
    (None, 'nearly every row has a word of its own, as of names or free text')
    """
    types, declared = pandas().api.types, _declared(values)
    if not name:
        return None, "it has no name, as row numbers have none"
    if not values.notna().any():
        return None, "it is empty"
    numeric = types.is_bool_dtype(values) or types.is_numeric_dtype(values)
    if numeric and not (declared or types.is_complex_dtype(values)):
        return NUMBER, ""
    if _is_time(values):
        return None, _IS_DATE
    given = values.dropna()
    if all(hasattr(value, "isoformat") for value in given.head(100)):
        return None, _IS_DATE
    if not all(isinstance(value, str | int | float | bool) or hasattr(value, "as_tuple") for value in given.head(100)):
        return None, "its cells are neither numbers nor words"
    is_number = _numbers(given).notna()
    if is_number.all() and not declared:
        return NUMBER, ""
    if is_number.mean() >= MIXED and not declared:
        raise _mixed(name, given, ~is_number)
    words, doubt = given.astype(str).nunique(), "" if declared else doubt_of(given)
    if doubt == _IS_DATE:
        return None, doubt
    if words > MOST_CATEGORIES:
        return None, doubt or f"it has {words:,} different words, more than {MOST_CATEGORIES}"
    if 2 * words > len(given):
        return None, doubt or "nearly every row has a word of its own, as of names or free text"
    return CATEGORY, doubt


def doubt_of(values: Any) -> str:
    """What words may have been meant as: dates, or numbers; nothing where they are words, or all are numbers.

    >>> import pandas
    >>> doubt_of(pandas.Series(["1", "2.5", "unknown"]))
    "most of its cells are numbers, but not 'unknown': leave unknown cells empty"
    """
    given = values.dropna()
    if _is_time(given):
        return _IS_DATE
    is_number, cells = _numbers(given).notna(), given.astype(str)
    if is_number.all():
        return ""
    if cells.str.fullmatch(_DATE).mean() >= MIXED:
        return _IS_DATE
    if cells.str.fullmatch(_WRITTEN_NUMBER).mean() >= MIXED:
        first = cells[~is_number].iloc[0]
        return f"its cells look like numbers, but not as they are read, such as {first!r}: write 1234.5"
    if is_number.mean() > _MOST:
        return f"most of its cells are numbers, but not {cells[~is_number].iloc[0]!r}: leave unknown cells empty"
    return ""


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
    """The column as words, None where a value is missing; whole numbers have all their digits, and no point.

    Blanks around a word belong to no word.
    """
    if _declared(values):
        categories = [*words_of(pandas().Series(values.cat.categories)), None]  # whose codes are 0, 1, …; missing is −1
        return [categories[code] for code in values.cat.codes]
    types = pandas().api.types
    missing = values.isna().tolist()
    if types.is_float_dtype(values):
        texts = [_number_text(value) for value in values.astype("float64").tolist()]
    else:
        texts = values.astype(str).str.strip().tolist()
    return [None if gone else text for gone, text in zip(missing, texts, strict=True)]


def _declared(values: Any) -> bool:
    """Whether who wrote the table says that these are categories, numbers though they may be."""
    return isinstance(values.dtype, pandas().CategoricalDtype)


def _is_time(values: Any) -> bool:
    """Whether the column was written as one of dates, or of spans of time."""
    types = pandas().api.types
    return bool(types.is_datetime64_any_dtype(values) or types.is_timedelta64_dtype(values))


def _number_text(value: float) -> str:
    """A number by which numbers that differ are told apart."""
    if value == round(value, 0) and abs(value) < 2**53:
        return str(int(value))
    short = f"{value:.15g}"
    return short if float(short) == value else repr(value)


def listed(names: Sequence[str]) -> str:
    """The first of some names, for a sentence.

    >>> listed(["age", "sex"])
    "'age', 'sex'"
    """
    return ", ".join(map(repr, names[:_LISTED])) + (", …" if len(names) > _LISTED else "")


def check_within(name: str, values: Any, scaled: Tensor) -> None:
    """Refuse a value that is absurdly far from all that was trained on: a slip, and too large to compute with."""
    far = (scaled.abs() > MOST_SPREADS).nonzero().flatten()
    if len(far):
        raise _too_far(name, values, int(far[0]), "the training rows")


def check_not_swamped(name: str, values: Any, numbers: Tensor) -> None:
    """Refuse numbers to train on of which one is so far from the others that beside it they are all the same."""
    known = numbers.nan_to_num(float(numbers.nanmean()))
    place = int((known - known.mean()).abs().argmax())
    others = torch.cat([numbers[:place], numbers[place + 1 :]])
    others = others[~others.isnan()]
    spread = float(others.std(correction=0)) if len(others) else 0.0
    if spread > 0 and abs(float(numbers[place] - others.mean())) > MOST_SPREADS * spread:
        raise _too_far(name, values, place, "the other training rows")


def _too_far(name: str, values: Any, place: int, rows: str) -> ValueError:
    found = f"column {name!r}, row {int(values.index[place]) + 1}: {values.iloc[place]}"
    requirement = f"lie within {MOST_SPREADS:,.0f} standard deviations of the mean of {rows}"
    return refusal("DATA", found, requirement, "correct that cell, leave it empty, or leave the column out")


def _numbers(values: Any) -> Any:
    """As float64, NaN what is no number; pandas would take dates for counts of nanoseconds."""
    if _is_time(values):
        return pandas().Series(float("nan"), index=values.index)
    return pandas().to_numeric(values, errors="coerce").astype("float64")


def _mixed(name: str, values: Any, words: Any) -> ValueError:
    first, others = words[words].index[0], int(words.sum()) - 1
    requirement = f"hold numbers alone, but does not in row {first + 1}"
    requirement += f", nor in {others:,} other{'s' * (others > 1)}" if others else ""
    remedy = "correct them, or leave unknown cells empty"
    return refusal("DATA", f"column {name!r}: {values[first]!r}", requirement, remedy)
