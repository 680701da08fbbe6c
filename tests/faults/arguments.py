"""Values to call public functions with: legal ones, and odd ones for each type that is annotated."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

LABELS = torch.tensor([0, 1, 2, 1])
TABLE = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.3, 0.3, 0.4]])
SCORES = torch.tensor([0.1, 0.4, 0.2, 0.9])
WRONG = LABELS.bool()
INPUTS = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
VALUES = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))

NUMBERS: list[Any] = [0, 1, -1, 2, 7, 0.5, 0.95, 1.0, 1.5, -0.5, math.nan, math.inf, -math.inf, 1e38, 1e-50, 1e300]
NUMBERS += [True, 10**30, -(10**30), 10**400, -(10**4000), [0.95], (), torch.tensor(0.5), 100.5, 3 + 1j]
TENSORS: list[Any] = [
    TABLE, LABELS, torch.zeros(0, 3), torch.zeros(4, 0), torch.zeros(()), torch.full((4, 3), math.nan), TABLE * 100,
    TABLE.log(), torch.full((4, 3), math.inf), TABLE.half(), TABLE.double(), TABLE.to(torch.complex64), TABLE.int(),
    torch.tensor([0, 1, 2, 3]), torch.tensor([0, -1, 2, -100]), LABELS.double(), WRONG, ~WRONG,
    SCORES, torch.tensor([0.1, math.nan, 0.2, 0.9]), torch.zeros(4), TABLE.expand(2, 4, 3), INPUTS.half(),
    INPUTS * 1e30,
    torch.tensor([0.1, math.inf, 0.2, 0.9]), TABLE[:, :2], torch.zeros(0), [0, 1, 2, 1], TABLE.tolist(),
    TABLE.T.contiguous().T, TABLE.clone().requires_grad_(), TABLE.bfloat16(),
    TABLE.numpy(), TABLE.numpy().astype(">f8"), LABELS.numpy().astype("u2"), np.ma.masked_array(TABLE, TABLE > 0.5),
    LABELS.to(torch.complex64), TABLE.to_sparse(), TABLE.to("meta"), TABLE.to(torch.float8_e4m3fn),
]  # fmt: skip
WORDS: list[Any] = ["", "x", "entropy", "closed_form", "é\x1b[31m", "a" * 300, b"x", "../x", "\0", "cuda:9", "\ud800"]
MODULES: list[Any] = [nn.Linear(2, 3), nn.Module(), nn.ReLU(), nn.Linear, nn.Sequential(), nn.BatchNorm1d(2)]
SEQUENCES: list[Any] = [(), [], (0.9,), [None], [0.9, 0.9], (math.nan,), (2.0,), ["x"], [[]], [TABLE], {0.9}, range(3)]
MAPPINGS: list[Any] = [{}, {"x": 1}, {1: 2}, {"*": 0.1}, {"*": math.nan}, {"weight": TABLE}, {None: None}, [("a", 1)]]
ANY: list[Any] = [None, 5, "x", object(), math.nan]

# what an annotation must name → what may be given there
POOLS: Mapping[str, list[Any]] = {
    "Tensor": TENSORS,
    "float": NUMBERS,
    "int": NUMBERS,
    "complex": NUMBERS,
    "str": WORDS,
    "Path": WORDS,
    "Rule": WORDS,
    "Randomness": NUMBERS,
    "KLWeight": NUMBERS,
    "Samples": NUMBERS,
    "Count": NUMBERS,
    "Module": MODULES,
    "Sequence": SEQUENCES,
    "Iterable": SEQUENCES,
    "Batches": SEQUENCES,
    "tuple": SEQUENCES,
    "range": SEQUENCES,
    "Mapping": MAPPINGS,
    "dict": MAPPINGS,
    "Draw": MAPPINGS,
    "Pair": [(TABLE,), (TABLE, LABELS, LABELS)],
    "Priors": [*MAPPINGS, *NUMBERS],
    "AnyPrior": [*MAPPINGS, *NUMBERS],
    "Numbers": [*MAPPINGS, *NUMBERS],
    "Where": [*WORDS, *SEQUENCES],
    "HeldOut": SEQUENCES,
    "Any": [*TENSORS, *NUMBERS, *WORDS],
}


def odd_values(annotation: object) -> list[Any]:
    """What may be given to a parameter of this annotation: all that its types suggest, and things of no such type."""
    words = set(re.findall(r"\w+", annotation if isinstance(annotation, str) else repr(annotation)))
    if words <= {"bool", "None"}:
        return [True, False]  # whatever is given has a truth
    return [value for word in sorted(words) for value in POOLS.get(word, [])] + ANY
