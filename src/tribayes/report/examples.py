"""Which examples to show: one the network is sure of, one between two classes, one it cannot place."""

from __future__ import annotations

import torch
from torch import Tensor

from tribayes.prediction import ClassPredictive


def telling_examples(pred: ClassPredictive, targets: Tensor, level: float = 0.95) -> dict[str, int]:
    """Numbers of up to three different examples, by what they are: "sure", "two-way", "hopeless".

    Sure: right, with the smallest entropy. Two-way: wrong (else uncertain) with the second class furthest above the
    third. Hopeless: of all others that are wrong or uncertain, the largest entropy. A kind that does not occur is
    left out.
    """
    correct, sure = pred.correct(targets), pred.certain(level)
    doubtful = ~correct | ~sure
    chosen: dict[str, int] = {}
    _choose(chosen, "sure", correct & sure, -pred.entropy)
    if pred.mean.shape[1] > 1:
        _choose(chosen, "two-way", doubtful if correct.all() else ~correct, _second_above_third(pred.mean))
    _choose(chosen, "hopeless", doubtful, pred.entropy)
    return chosen


def _choose(chosen: dict[str, int], kind: str, candidates: Tensor, score: Tensor) -> None:
    """Add the best candidate that is not chosen yet."""
    free = candidates.clone()
    free[list(chosen.values())] = False
    if free.any():
        chosen[kind] = int(torch.where(free, score, -torch.inf).argmax())


def _second_above_third(mean: Tensor) -> Tensor:
    ordered = mean.sort(dim=-1, descending=True).values
    return ordered[:, 1] - ordered[:, 2] if mean.shape[1] > 2 else ordered[:, 1]
