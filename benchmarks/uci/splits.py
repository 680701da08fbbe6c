"""The fixed splits, read from text files and standardised on their training rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.uci.recipe import SETS

VALIDATION_SHARE = 0.2  # of the training rows, held out to compare recipes


@dataclass(frozen=True)
class Split:
    """Rows to train on and rows to test on: inputs (N, d), targets (N,), float64."""

    train_inputs: Tensor
    train_targets: Tensor
    test_inputs: Tensor
    test_targets: Tensor

    def held_out(self, seed: int) -> Split:
        """A split of the training rows alone: a fifth of them is to be predicted from the others."""
        order = torch.randperm(len(self.train_targets), generator=torch.Generator().manual_seed(seed))
        count = round(VALIDATION_SHARE * len(order))
        held, kept = order[:count], order[count:]
        return Split(
            self.train_inputs[kept], self.train_targets[kept], self.train_inputs[held], self.train_targets[held]
        )


@dataclass(frozen=True)
class Standardised:
    """A split in units of the training rows: mean 0 and standard deviation 1 there, features and target alike."""

    split: Split
    target_std: float

    @classmethod
    def of(cls, raw: Split) -> Standardised:
        mean, std = _mean_and_std(raw.train_inputs)
        target_mean, target_std = _mean_and_std(raw.train_targets)
        split = Split(
            ((raw.train_inputs - mean) / std).float(),
            ((raw.train_targets - target_mean) / target_std).float(),
            ((raw.test_inputs - mean) / std).float(),
            ((raw.test_targets - target_mean) / target_std).float(),
        )
        return cls(split, float(target_std))


def _mean_and_std(values: Tensor) -> tuple[Tensor, Tensor]:
    std = values.std(0, correction=0)
    return values.mean(0), torch.where(std == 0, 1.0, std)


def load_splits(folder: Path, count: int) -> list[Split]:
    """The first `count` splits of the set in `folder`."""
    table = torch.from_numpy(_read(folder / "data.txt"))
    features, target = _read_rows(folder / "index_features.txt"), _read_rows(folder / "index_target.txt")
    available = int(_read(folder / "n_splits.txt").item())
    if not 1 <= count <= available:
        raise SystemExit(f"--splits is {count}, but {folder} holds {available} splits; ask for 1 to {available}")
    splits = []
    for number in range(count):
        train, test = (table[_read_rows(folder / f"index_{part}_{number}.txt")] for part in ("train", "test"))
        splits.append(Split(train[:, features], train[:, target[0]], test[:, features], test[:, target[0]]))
    return splits


def _read(path: Path) -> np.ndarray[Any, np.dtype[np.float64]]:
    if not path.is_file():
        raise SystemExit(
            f"missing file {path.name} in {path.parent}; the data folder (--data-dir or $TRIBAYES_DATA) must hold "
            f"a folder for each of {', '.join(SETS)} with data.txt and the index files of the splits"
        )
    return np.loadtxt(path)


def _read_rows(path: Path) -> Tensor:
    return torch.from_numpy(_read(path).reshape(-1)).long()
