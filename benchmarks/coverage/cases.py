"""The data: rows to train on, held-out rows to set widths by, and rows to test on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.uci.recipe import SETS as UCI
from benchmarks.uci.splits import Split, Standardised, load_splits
from tribayes.data import load

TEST_SHARE = 0.2  # of diabetes and digits, which have no splits of their own
HELD_OUT_IMAGES = 10_000  # of Fashion-MNIST's training images


@dataclass(frozen=True)
class Rows:
    """Inputs (N, d), and targets (N,): standardised values, or classes."""

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, places: slice | Tensor) -> Rows:
        return Rows(self.inputs[places], self.targets[places])


@dataclass(frozen=True)
class Case:
    """One split. `held` is in random order, so that any part of it is a fair draw."""

    train: Rows
    held: Rows
    test: Rows
    unit: float = 1.0  # the standard deviation of a regression's target


@dataclass(frozen=True)
class Recipe:
    """How the networks of a set are trained: AdamW, its rate falling to 0 along half a cosine."""

    hidden: int
    outputs: int
    steps: int = 2000
    batch: int = 64
    lr: float = 0.01
    weight_decay: float = 0.01


@dataclass(frozen=True)
class Task:
    """A data set with its recipe."""

    name: str
    splits: int
    pool: int  # rows that test rows are drawn from
    recipe: Recipe
    load: Callable[[Path, int], Case]  # (data folder, number of the split)
    classes: int = 0  # 0: regression


def _uci(name: str) -> Callable[[Path, int], Case]:
    def loaded(folder: Path, number: int) -> Case:
        return regression_case(load_splits(folder / "uci" / name, number + 1)[number], number)

    return loaded


def _diabetes(folder: Path, number: int) -> Case:
    del folder  # it is inside scikit-learn
    from sklearn.datasets import load_diabetes

    inputs, targets = (torch.from_numpy(values) for values in load_diabetes(return_X_y=True))
    test, train = _drawn(len(targets), round(TEST_SHARE * len(targets)), number)
    return regression_case(Split(inputs[train], targets[train], inputs[test], targets[test]), number)


def _digits(folder: Path, number: int) -> Case:
    del folder
    from sklearn.datasets import load_digits

    inputs, targets = (torch.from_numpy(values) for values in load_digits(return_X_y=True))
    rows = Rows(inputs.float(), targets.long())
    test, rest = _drawn(len(rows), round(TEST_SHARE * len(rows)), number)
    return class_case(rows[rest], rows[test], round(len(rest) / 5), number)


def _fashion(folder: Path, number: int) -> Case:
    images = load("fashion-mnist", folder, progress=False)
    parts = ((images.train_images, images.train_labels), (images.test_images, images.test_labels))
    train, test = (Rows(x.flatten(1).float(), y.long()) for x, y in parts)
    return class_case(train, test, HELD_OUT_IMAGES, number)


def regression_case(split: Split, seed: int) -> Case:
    """A fifth of the training rows held out; all in units of the rows that are left to train on."""
    inner = split.held_out(seed)
    inputs = torch.cat([inner.test_inputs, split.test_inputs])
    targets = torch.cat([inner.test_targets, split.test_targets])
    scaled = Standardised.of(Split(inner.train_inputs, inner.train_targets, inputs, targets))
    others = Rows(scaled.split.test_inputs, scaled.split.test_targets)
    count = len(inner.test_targets)
    train = Rows(scaled.split.train_inputs, scaled.split.train_targets)
    return Case(train, others[:count], others[count:], scaled.target_std)


def class_case(rows: Rows, test: Rows, count: int, seed: int) -> Case:
    """`count` of the rows held out; pixels shifted and scaled by two numbers, those of the rows left to train on."""
    held, kept = _drawn(len(rows), count, seed)
    mean, std = rows.inputs[kept].mean(), rows.inputs[kept].std()
    parts = (rows[kept], rows[held], test)
    return Case(*(Rows((part.inputs - mean) / std, part.targets) for part in parts))


def _drawn(total: int, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """`count` random places, and the others."""
    order = torch.randperm(total, generator=torch.Generator().manual_seed(seed))
    return order[:count], order[count:]


_FASHION_STEPS = 5 * 50_000 // 128  # five epochs

_ROWS = {"concrete": 1030, "energy": 768, "yacht": 308}
_FASHION_RECIPE = Recipe(256, 10, _FASHION_STEPS, 128, 0.001)

TASKS = {
    **{name: Task(name, 20, _ROWS[name], Recipe(50, 1), _uci(name)) for name in UCI},
    "diabetes": Task("diabetes", 10, 442, Recipe(50, 1), _diabetes),
    "digits": Task("digits", 10, 1797, Recipe(64, 10), _digits, 10),
    "fashion-mnist": Task("fashion-mnist", 2, 10_000, _FASHION_RECIPE, _fashion, 10),
}
