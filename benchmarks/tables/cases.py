"""The tables: rows to learn from and rows to test on, as NumPy arrays, which is what all arms take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets

from benchmarks.uci.splits import load_splits

SPLITS = 5
TEST_SHARE = 0.2  # of scikit-learn's tables, which have no splits of their own


@dataclass(frozen=True)
class Rows:
    """Inputs (N, d), targets (N,): values, or classes from 0."""

    inputs: Any
    targets: Any

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, places: Any) -> Rows:
        return Rows(self.inputs[places], self.targets[places])

    def parted(self, seed: int) -> tuple[Rows, Rows]:
        """A random fifth of the rows, and the others."""
        order = np.random.RandomState(seed).permutation(len(self))
        count = round(TEST_SHARE * len(self))
        return self[order[:count]], self[order[count:]]


@dataclass(frozen=True)
class Table:
    """A data set: `load(data folder, number of the split)` gives the rows to test on and those to learn from."""

    load: Callable[[Path | None, int], tuple[Rows, Rows]]
    classes: bool = False
    own_files: bool = False  # whether it is in the data folder, and not inside scikit-learn


def _embedded(loader: Callable[..., Any]) -> Callable[[Path | None, int], tuple[Rows, Rows]]:
    def loaded(folder: Path | None, number: int) -> tuple[Rows, Rows]:
        del folder  # it is inside scikit-learn
        return Rows(*loader(return_X_y=True)).parted(number)

    return loaded


def _uci(name: str) -> Callable[[Path | None, int], tuple[Rows, Rows]]:
    def loaded(folder: Path | None, number: int) -> tuple[Rows, Rows]:
        assert folder is not None
        split = load_splits(folder / "uci" / name, number + 1)[number]
        test = Rows(split.test_inputs.numpy(), split.test_targets.numpy())
        return test, Rows(split.train_inputs.numpy(), split.train_targets.numpy())

    return loaded


TABLES = {
    "diabetes": Table(_embedded(datasets.load_diabetes)),
    **{name: Table(_uci(name), own_files=True) for name in ("concrete", "energy", "yacht")},
    "breast cancer": Table(_embedded(datasets.load_breast_cancer), classes=True),
    "wine": Table(_embedded(datasets.load_wine), classes=True),
}
