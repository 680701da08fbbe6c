"""Empirical quantiles and credible intervals, and the paper's question whether intervals overlap.

A quantile of S numbers is the linear interpolation between order statistics (torch's and NumPy's default): for
S = 200 and a 95 % interval, between the 5th and 6th smallest, and the 195th and 196th.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from tribayes._errors import is_number, refusal, wrong_type

_ENTRIES_AT_ONCE = 2**24  # sorted at once: bounds the working memory


def check_level(level: float) -> float:
    """A credibility level: a number strictly between 0 and 1.

    >>> check_level(95)
    Traceback (most recent call last):
    ValueError: `level` (=95) must lie strictly between 0 and 1; pass e.g. 0.95 for a 95 % interval.
    """
    if not is_number(level):
        raise wrong_type("level", level, "be a number", "pass e.g. 0.95")
    if not 0 < level < 1:
        raise refusal("level", level, "lie strictly between 0 and 1", "pass e.g. 0.95 for a 95 % interval")
    return float(level)


def quantiles(samples: Tensor, probabilities: Sequence[float]) -> Tensor:
    """Quantiles over the first axis: (S, N, C) → (len(probabilities), N, C).

    torch.quantile refuses more than 16 million entries; this sorts a block of examples at a time.

    >>> quantiles(torch.arange(5.0).reshape(5, 1, 1), (0.25, 0.9)).flatten()
    tensor([1.0000, 3.6000])
    """
    last = len(samples) - 1
    places = [(probability * last, math.floor(probability * last)) for probability in probabilities]
    blocks = []
    for block in samples.split(max(1, _ENTRIES_AT_ONCE // max(1, samples[:, :1].numel())), dim=1):
        ordered = block.movedim(0, -1).sort(dim=-1).values  # (N, C, S): sorting is fastest along the last axis
        blocks.append(
            torch.stack([ordered[..., i].lerp(ordered[..., min(i + 1, last)], place - i) for place, i in places])
        )
    return torch.cat(blocks, dim=1)


def tails(level: float) -> tuple[float, float]:
    """α/2 and 1 − α/2 for the credibility level 1 − α.

    >>> tails(0.5)
    (0.25, 0.75)
    """
    alpha = 1 - check_level(level)
    return alpha / 2, 1 - alpha / 2


def certain(lower: Tensor, upper: Tensor, label: Tensor) -> Tensor:
    """(N,) bool: whether the interval of the class `label` (N,) overlaps no other class's, of (N, C) each.

    Intervals are closed: two that only touch do overlap, so the prediction is uncertain. An interval lying wholly
    above the predicted class's does not overlap it either; the paper's sentence is taken as it stands.

    >>> lower, upper = torch.tensor([[0.6, 0.1], [0.4, 0.3]]), torch.tensor([[0.9, 0.4], [0.7, 0.6]])
    >>> certain(lower, upper, label=torch.tensor([0, 0]))
    tensor([ True, False])
    """
    chosen = label.unsqueeze(-1)
    own_lower, own_upper = lower.gather(-1, chosen), upper.gather(-1, chosen)
    apart = (upper < own_lower) | (lower > own_upper)
    return apart.scatter(-1, chosen, True).all(-1)
