"""The column that is to be predicted: classes by their names, or values by mean and standard deviation."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor

from tribayes._errors import refusal
from tribayes.own.columns import NUMBER, doubt_of, kind_of, listed, numbers_of, words_of
from tribayes.own.table_file import pandas
from tribayes.runs.records import is_of

TASKS = ("classification", "regression")
FEWEST_PER_CLASS = 5  # rows: each class has to be trained on, calibrated by and judged by
MOST_CLASSES = 1000

_FEW_VALUES = 20  # whole numbers with no more different ones than this are taken for classes
_DAMAGED = "schema.json was changed or is damaged; restore it, or start anew in another folder"


@dataclass(frozen=True)
class Target:
    """What is predicted: one of `classes`; or where there are none, a value in units of `std` about `mean`."""

    name: str
    classes: tuple[str, ...] = ()
    mean: float = 0.0
    std: float = 1.0

    @property
    def outputs(self) -> int:
        """Of the network."""
        return len(self.classes) or 1

    @classmethod
    def from_dict(cls, stored: Any) -> Target:
        """One that was stored; every value is checked."""
        kinds = {"name": str, "classes": list, "mean": float, "std": float}
        if not isinstance(stored, dict) or stored.keys() != kinds.keys():
            raise refusal("target", stored, f"have the entries {list(kinds)}", _DAMAGED)
        for key, kind in kinds.items():
            if not is_of(kind, stored[key]):
                raise refusal(f"target.{key}", stored[key], "be of its type", _DAMAGED)
        words = stored["classes"]
        if not all(isinstance(word, str) for word in words) or len(set(words)) < len(words) or len(words) == 1:
            raise refusal("target.classes", words, "be different words, two or more", _DAMAGED)
        if stored["std"] <= 0:
            raise refusal("target.std", stored["std"], "be positive", _DAMAGED)
        return cls(**stored | {"classes": tuple(words)})

    @property
    def words(self) -> str:
        """As what it is learned."""
        if not self.classes:
            return f"{self.name!r} is learned as a number"
        numbers = len(self.classes) > 2 and all(_by_number_then_word(word)[0] < float("inf") for word in self.classes)
        remark = "; --task regression learns a number" if numbers else ""
        return f"{self.name!r} is learned as {len(self.classes):,} classes: {listed(self.classes)}{remark}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"classes": list(self.classes)}


def find_target(table: Any, name: str | None) -> str:
    """The column that was meant; an error that helps where there is none of that name."""
    names = list(table.columns)
    if name is None:
        raise refusal("--target", None, f"name the column to predict: {listed(names)}", f"write --target {names[-1]!r}")
    if name not in names:
        near = get_close_matches(name, names, 1)
        remedy = f"did you mean {near[0]!r}?" if near else "correct the name; a CSV file's first line has them"
        raise refusal("--target", name, f"be a column of the table: {listed(names)}", remedy)
    return name


def task_of(name: str, values: Any, wanted: str | None) -> str:
    """Classification for words, yes or no, and few whole numbers; regression for other numbers; or as wanted."""
    if wanted is not None:
        if wanted not in TASKS:
            raise refusal("--task", wanted, f"be {' or '.join(TASKS)}", "correct the word")
        return wanted
    if pandas().api.types.is_bool_dtype(values) or kind_of(name, values)[0] != NUMBER:
        return "classification"
    numbers = numbers_of(name, values)
    whole = bool((numbers == numbers.round()).all())
    return "classification" if whole and values.nunique() <= _FEW_VALUES else "regression"


def class_indices(name: str, values: Any) -> tuple[Tensor, tuple[str, ...]]:
    """(N,) int64, and the classes' names in their order; an error where classes are too few, too many or too rare."""
    words = [str(word) for word in words_of(values)]
    counts = Counter(words)
    if len(counts) < 2:
        requirement = f"have two classes or more, but all rows that have one are {words[0]!r}"
        remedy = "choose another; empty cells and the words NA, nan, null and None say that there is none"
        raise refusal("--target", name, requirement, remedy)
    rare = min(counts, key=lambda word: counts[word])
    if counts[rare] < FEWEST_PER_CLASS:
        requirement = f"have {FEWEST_PER_CLASS} rows or more of each class, but {rare!r} has {counts[rare]}"
        remedy = "gather more, leave its rows out, or pass --task regression where it is a number"
        remedy = doubt_of(values) or remedy
        raise refusal("--target", name, requirement, remedy)
    if len(counts) > MOST_CLASSES:
        requirement = f"have at most {MOST_CLASSES:,} classes, but it has {len(counts):,}"
        raise refusal("--target", name, requirement, "merge some, or pass --task regression where it is a number")
    classes = tuple(sorted(counts, key=_by_number_then_word))
    places = {word: place for place, word in enumerate(classes)}
    return torch.tensor([places[word] for word in words]), classes


def target_values(name: str, values: Any) -> Tensor:
    """(N,) float64; an error where they are no numbers, or all the same."""
    if kind_of(name, values)[0] != NUMBER:
        remedy = doubt_of(values) or "leave it out"
        raise refusal("--task", "regression", f"be for a column of numbers, which {name!r} is not", remedy)
    numbers = numbers_of(name, values)
    if bool((numbers == numbers[0]).all()):
        raise refusal(
            "--target", name, f"differ from row to row, but it is always {float(numbers[0]):g}", "choose another"
        )
    if not 0 < float(numbers.std()) < float("inf"):
        raise refusal("--target", name, "have a spread that can be computed with", "rescale it")
    return numbers


def _by_number_then_word(word: str) -> tuple[float, str]:
    try:
        return float(word), word
    except ValueError:
        return float("inf"), word
