"""Whether coverage or calibration misses its level by more than chance, and what to say then."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tribayes._text import level_text, percent

RARE = 0.01  # how seldom a prediction that is right would be called wrong here

_REMEDY = "tribayes.calibrate and tribayes.conformalise mend that on held-out examples"


def coverage_remarks(level: float, covered: float, examples: int) -> list[str]:
    """A sentence where intervals hold more or less than their level beyond chance, by the exact binomial test.

    >>> coverage_remarks(0.95, 0.94, examples=100)
    []
    >>> print(*coverage_remarks(0.95, 0.57, examples=100))
    The 95 % intervals hold 57.0 % of the observations, less than chance explains: they are too narrow;
    tribayes.calibrate and tribayes.conformalise mend that on held-out examples.
    """
    chance = binomial_chance(round(covered * examples), examples, level)
    if chance >= RARE:
        return []
    less = covered < level
    amount, fault = ("less", "narrow") if less else ("more", "wide")
    held = f"The {level_text(level)} intervals hold {percent(covered, 1)} of the observations"
    return [f"{held}, {amount} than chance explains: they are too {fault}; {_REMEDY}."]


def confidence_remarks(confidence: Tensor, correct: Tensor) -> list[str]:
    """A sentence where labels are right more or less often than they claim, beyond chance.

    If every label were right with the probability it claims, the number of right ones would have the mean Σ p and the
    variance Σ p (1 − p).

    >>> confidence_remarks(torch.full((100,), 0.9), torch.arange(100) < 88)
    []
    >>> print(*confidence_remarks(torch.full((1000,), 0.99), torch.arange(1000) < 900))
    Mean confidence is 99.0 %, accuracy 90.0 %, further apart than chance explains: too sure of itself;
    tribayes.calibrate and tribayes.conformalise mend that on held-out examples.
    """
    claimed, right = confidence.double(), correct.double()
    deviation = math.sqrt(max(float((claimed * (1 - claimed)).sum()), 1e-12))
    distance = float((claimed - right).sum()) / deviation
    if math.erfc(abs(distance) / math.sqrt(2)) >= RARE:
        return []
    fault = "too sure of itself" if distance > 0 else "too unsure of itself"
    claim = f"Mean confidence is {percent(float(claimed.mean()), 1)}, accuracy {percent(float(right.mean()), 1)}"
    return [f"{claim}, further apart than chance explains: {fault}; {_REMEDY}."]


def binomial_chance(hits: int, trials: int, probability: float) -> float:
    """The two-sided probability of so many hits or of something rarer on the same side, doubled.

    >>> round(binomial_chance(0, 10, 0.5), 6)  # 2 / 2¹⁰
    0.001953
    """
    counts = torch.arange(trials + 1, dtype=torch.float64, device="cpu")
    ways = math.lgamma(trials + 1) - torch.lgamma(counts + 1) - torch.lgamma(trials - counts + 1)
    chances = (ways + counts * math.log(probability) + (trials - counts) * math.log1p(-probability)).exp()
    below, above = chances[: hits + 1].sum(), chances[hits:].sum()
    return min(1.0, 2 * float(torch.minimum(below, above)))
