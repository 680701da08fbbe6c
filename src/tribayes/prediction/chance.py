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


def confidence_remarks(confidence: Tensor, correct: Tensor, example: Tensor | None = None) -> list[str]:
    """A sentence where labels are right more or less often than they claim, beyond chance.

    If every label were right with the probability it claims, and by itself, the number of right ones would have a known
    distribution, by which it is judged: a network that is nearly sure is wrong so seldom that no normal one would do.
    Pixels and tokens are not right each by itself: `example` says to which example each belongs, and an example with
    its average counts as one label. If all of its pixels are right or wrong together that is so, else it scatters less.

    >>> confidence_remarks(torch.full((100,), 0.9), torch.arange(100) < 88)
    []
    >>> print(*confidence_remarks(torch.full((1000,), 0.99), torch.arange(1000) < 900))
    Mean confidence is 99.0 %, accuracy 90.0 %, further apart than chance explains: too sure of itself;
    tribayes.calibrate and tribayes.conformalise mend that on held-out examples.
    """
    claimed, right = confidence.double().clamp(max=1), correct.double()
    if example is not None:
        claimed, right = _means(claimed, example), _means(right, example)
    sure, count = float(claimed.sum()), round(float(right.sum()), 6)
    if _two_sided(_sum_of_coins(claimed), math.ceil(count) if count < sure else math.floor(count)) >= RARE:
        return []
    fault = "too sure of itself" if sure > count else "too unsure of itself"
    claim = f"Mean confidence is {percent(float(claimed.mean()), 1)}, accuracy {percent(float(right.mean()), 1)}"
    return [f"{claim}, further apart than chance explains: {fault}; {_REMEDY}."]


def binomial_chance(hits: int, trials: int, probability: float) -> float:
    """The two-sided probability of so many hits or of something rarer on the same side, doubled.

    >>> round(binomial_chance(0, 10, 0.5), 6)  # 2 / 2¹⁰
    0.001953
    """
    counts = torch.arange(trials + 1, dtype=torch.float64, device="cpu")
    ways = math.lgamma(trials + 1) - torch.lgamma(counts + 1) - torch.lgamma(trials - counts + 1)
    return _two_sided(
        (ways + counts * math.log(probability) + (trials - counts) * math.log1p(-probability)).exp(), hits
    )


def _two_sided(chances: Tensor, hits: int) -> float:
    """That of so many hits or of something rarer on the same side, doubled, by the probability of every number."""
    return min(1.0, 2 * float(torch.minimum(chances[: hits + 1].sum(), chances[hits:].sum())))


def _sum_of_coins(heads: Tensor) -> Tensor:
    """(n + 1,): the probability of every number of heads of n coins, each with its own.

    Coins are joined by twos, then these, and so on: what two groups show together is the convolution of both.
    """
    count = len(heads)
    laws = torch.stack([1 - heads, heads], dim=-1)  # (groups, numbers of heads)
    while len(laws) > 1:
        if len(laws) % 2:
            nobody = torch.zeros_like(laws[:1])
            nobody[0, 0] = 1
            laws = torch.cat([laws, nobody])
        width = 2 * laws.shape[1] - 1
        length = 1 << width.bit_length()  # at least the width; transforms are fast at powers of two
        spectra = torch.fft.rfft(laws, n=length)
        laws = torch.fft.irfft(spectra[0::2] * spectra[1::2], n=length)[:, :width]
    return laws[0, : count + 1].clamp(min=0)  # rounding leaves some 1e-16 where nothing should be


def _means(values: Tensor, example: Tensor) -> Tensor:
    """(examples,): the mean over what belongs to each, of those that something belongs to."""
    _, place, sizes = example.unique(return_inverse=True, return_counts=True)
    return values.new_zeros(len(sizes)).index_add_(0, place, values) / sizes
