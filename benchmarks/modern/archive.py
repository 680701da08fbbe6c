"""Result files of a folder: NAME.json with everything a reader wants, NAME.npz with what the networks answered.

Each is written whole or not at all, the json last: a run is there when its json is. Answers are kept as logarithms of
probabilities in float16: float16 knows no probability below 6e-8, and the NLL of confident networks hangs on those.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tribayes._files import make_folder, read_json, store, store_json

Record = dict[str, Any]

_FAILED = ".failed.json"
_LOWEST = 1e-30  # a probability that underflowed is not infinitely surprising


def save(folder: Path, record: Record, answers: Mapping[str, Tensor], labels: Mapping[str, Tensor]) -> None:
    """A finished run: mean probabilities (…, C) by name, and labels (N,)."""
    make_folder(folder)
    arrays = {name: value.float().clamp(min=_LOWEST).log().half().numpy() for name, value in answers.items()}
    arrays |= {name: value.cpu().to(torch.int16).numpy() for name, value in labels.items()}
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    store(folder / f"{record['name']}.npz", content.getvalue())
    store_json(folder / f"{record['name']}.json", _numbers(record))
    (folder / f"{record['name']}{_FAILED}").unlink(missing_ok=True)


def save_failure(folder: Path, record: Record) -> None:
    """A run that failed; `record` has its error."""
    make_folder(folder)
    store_json(folder / f"{record['name']}{_FAILED}", record)


def records(folder: Path) -> list[Record]:
    """All finished runs, by name."""
    paths = [path for path in sorted(folder.glob("*.json")) if not path.name.endswith(_FAILED)]
    return [read_json(path) for path in paths]


def failures(folder: Path) -> list[Record]:
    """All runs that failed and were not repeated since."""
    return [read_json(path) for path in sorted(folder.glob(f"*{_FAILED}"))]


def answers(folder: Path, name: str) -> dict[str, Tensor]:
    """Of a finished run: probabilities that sum to one, and labels, by name."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as stored:
        arrays = {key: torch.from_numpy(stored[key]) for key in stored.files}
    return {
        key: value.double().softmax(-1).float() if value.is_floating_point() else value.long()
        for key, value in arrays.items()
    }


def _numbers(value: Any) -> Any:
    """JSON has no NaN and no infinity: a figure that is one is left empty, and the run kept."""
    if isinstance(value, Mapping):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_numbers(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
