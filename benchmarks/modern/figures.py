"""Figures of a run, from what its network said: probabilities (N, C) of images, and samples (S, N, C) where there are.

Each function gives plain numbers by name. Scores themselves are those of `tribayes.prediction.metrics`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tribayes.prediction import metrics
from tribayes.prediction.source import certain, entropy, quantiles, tails
from tribayes.prediction.summary import Counts

LEVEL = 0.95  # of credible intervals, and of intervals over seeds

Figures = dict[str, Any]

_COLDEST, _HOTTEST = 0.05, 20.0  # temperatures that are looked at
_GOLDEN = (math.sqrt(5) - 1) / 2


def scores(probabilities: Tensor, labels: Tensor) -> dict[str, float]:
    """Error, NLL, ECE and Brier score."""
    return {
        "error": float((probabilities.argmax(-1) != labels).double().mean()),
        "nll": metrics.negative_log_likelihood(probabilities, labels),
        "ece": metrics.calibration_error(probabilities, labels),
        "brier": metrics.brier_score(probabilities, labels),
    }


def figures(
    probabilities: Tensor, labels: Tensor, samples: Tensor | None = None, temperature: float | None = None
) -> Figures:
    """The scores and the AUROC of errors by entropy; counts of quite certain images where there are samples.

    With a temperature also the scores of the scaled probabilities.
    """
    correct = probabilities.argmax(-1) == labels
    found: Figures = scores(probabilities, labels)
    found["auroc_errors"] = metrics.auroc_or_none(entropy(probabilities), ~correct)
    if samples is not None and len(samples) > 1:
        lower, upper = quantiles(samples, tails(LEVEL))
        sure = certain(lower, upper, probabilities.argmax(-1))
        kinds = [right & held for right in (correct, ~correct) for held in (sure, ~sure)]
        found["certain"] = vars(Counts(*(int(kind.sum()) for kind in kinds)))
    if temperature is not None:
        found["scaled"] = scores(scaled(probabilities, temperature), labels)
    return found


def best_temperature(probabilities: Tensor, labels: Tensor) -> float:
    """The T at which softmax(ln p / T) has the smallest NLL on these images, which should be held-out ones.

    By golden section over ln T: the NLL is convex in 1/T, so it has one valley. Guo et al. (2017) divide logits: of one
    network these are ln p but for a constant, and an average over networks has no others.
    """
    logarithms, labels = _logarithms(probabilities), labels.to(probabilities.device)

    def loss(log_temperature: float) -> float:
        return float(F.cross_entropy(logarithms / math.exp(log_temperature), labels))

    return math.exp(_lowest(loss, math.log(_COLDEST), math.log(_HOTTEST)))


def scaled(probabilities: Tensor, temperature: float) -> Tensor:
    """The probabilities at a temperature: above 1 they are less sure."""
    return (_logarithms(probabilities) / temperature).softmax(-1)


def told_apart(
    inside: Tensor, outside: Tensor, inside_samples: Tensor | None = None, outside_samples: Tensor | None = None
) -> dict[str, float]:
    """AUROC of "entropy", and of "epistemic" where there are samples, for foreign images against familiar ones."""
    found = {"entropy": metrics.out_of_distribution_auroc(entropy(inside), entropy(outside))}
    if inside_samples is not None and outside_samples is not None:
        pairs = ((inside, inside_samples), (outside, outside_samples))
        known, foreign = (entropy(mean) - entropy(samples).mean(0) for mean, samples in pairs)
        found["epistemic"] = metrics.out_of_distribution_auroc(known, foreign)
    return found


def beside_people(probabilities: Tensor, votes: Tensor) -> dict[str, float]:
    """Cross-entropy to the shares of people's votes (N, C), in nats; Spearman's correlation of both entropies."""
    votes = votes.to(probabilities.device, torch.float64)
    surprise = -(votes * _logarithms(probabilities)).sum(-1).mean()
    return {"cross_entropy": float(surprise), "spearman": spearman(entropy(probabilities), entropy(votes))}


def spearman(one: Tensor, other: Tensor) -> float:
    """The correlation of ranks of two (N,); NaN where all values of one are equal."""
    ranks = torch.stack([_ranks(one), _ranks(other).to(one.device)])
    return float(torch.corrcoef(ranks)[0, 1].clamp(-1, 1))


def over_corruptions(each: Mapping[tuple[str, int], Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """From (kind, severity) → scores: the means over severities of each kind, and under "mean" those over all."""
    by_kind: dict[str, list[Mapping[str, float]]] = {}
    for (kind, _), one in each.items():
        by_kind.setdefault(kind, []).append(one)
    return {"mean": _averaged(list(each.values()))} | {kind: _averaged(some) for kind, some in by_kind.items()}


def ensemble_log_likelihoods(members: Tensor, labels: Tensor, held_out: Tensor, held_out_labels: Tensor) -> list[float]:
    """Calibrated log-likelihoods of ensembles of 1, 2, … m, each at its own best temperature on held-out images.

    Members are (m, N, C), and the same ones asked about held-out images. Each size is the mean over the groups of
    neighbours in a circle, so that every member counts the same.
    """
    found = []
    for size in range(1, len(members) + 1):
        starts = range(len(members) if size < len(members) else 1)
        groups = [[(start + place) % len(members) for place in range(size)] for start in starts]
        found.append(
            statistics.fmean(
                calibrated_log_likelihood(members[group].mean(0), labels, held_out[group].mean(0), held_out_labels)
                for group in groups
            )
        )
    return found


def calibrated_log_likelihood(
    probabilities: Tensor, labels: Tensor, held_out: Tensor, held_out_labels: Tensor
) -> float:
    """Mean ln p of the labels after temperature scaling (Ashukha et al. 2020): larger is better."""
    temperature = best_temperature(held_out, held_out_labels)
    return -metrics.negative_log_likelihood(scaled(probabilities, temperature), labels)


def equivalent(calibrated_ll: float, ensemble_lls: Sequence[float]) -> float:
    """The deep-ensemble equivalent: how many plain networks reach this calibrated log-likelihood together.

    `ensemble_lls` are those of 1, 2, … m networks; between two sizes the line counts. What a single network surpasses
    gives 1, what m networks do not reach gives m; `equivalent_text` says so.

    >>> [equivalent(one, [-2, -1, -0.5]) for one in (-1.5, -3, 0)]
    [1.5, 1.0, 3.0]
    """
    if not ensemble_lls:
        raise ValueError("`ensemble_lls` is empty; pass the log-likelihoods of ensembles of 1, 2, …")
    if calibrated_ll <= ensemble_lls[0]:
        return 1.0
    for size, (lower, upper) in enumerate(pairwise(ensemble_lls), start=1):
        if calibrated_ll <= upper:  # the first size that reaches it, should larger ones fall back
            return size + (calibrated_ll - lower) / (upper - lower)
    return float(len(ensemble_lls))


def equivalent_text(calibrated_ll: float, ensemble_lls: Sequence[float]) -> str:
    """The same in words.

    >>> [equivalent_text(one, [-0.2, -0.15]) for one in (-0.3, -0.2, -0.175, -0.1)]
    ['<1', '1.0', '1.5', '>2']
    """
    if calibrated_ll < ensemble_lls[0]:
        return "<1"
    if calibrated_ll > max(ensemble_lls):
        return f">{len(ensemble_lls)}"
    return f"{equivalent(calibrated_ll, ensemble_lls):.1f}"


@dataclass(frozen=True)
class Difference:
    """A mean difference over seeds and the bounds of its interval."""

    mean: float
    lower: float
    upper: float
    seeds: int

    @property
    def clear(self) -> bool:
        """Whether zero lies outside the interval."""
        return self.lower > 0 or self.upper < 0


def paired_difference(one: Mapping[int, float], other: Mapping[int, float], level: float = LEVEL) -> Difference:
    """one − other over the seeds that both have, with Student's t-interval; of a single seed it is without bounds.

    >>> paired_difference({0: 1.0, 1: 3.0, 2: 9.0}, {0: 0.0, 1: 1.0})
    Difference(mean=1.5, lower=-4.85..., upper=7.85..., seeds=2)
    """
    differences = [one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())]
    if not differences:
        raise ValueError(f"the seeds {sorted(one)} and {sorted(other)} have none in common; run some of them for both")
    mean, count = statistics.fmean(differences), len(differences)
    reach = math.inf
    if count > 1:
        reach = student_quantile(level, count - 1) * statistics.stdev(differences) / math.sqrt(count)
    return Difference(mean, mean - reach, mean + reach, count)


def student_quantile(level: float, freedom: int) -> float:
    """The t with P(|T| < t) = level, of Student's law with a whole number of degrees of freedom.

    >>> [round(student_quantile(0.95, freedom), 3) for freedom in (1, 2, 3, 4, 9)]
    [12.706, 4.303, 3.182, 2.776, 2.262]
    """
    lower, upper = 0.0, math.pi / 2  # of the angle whose tangent is t / √freedom
    for _ in range(60):
        middle = (lower + upper) / 2
        lower, upper = (middle, upper) if _student_within(middle, freedom) < level else (lower, middle)
    return math.sqrt(freedom) * math.tan(lower)


def _student_within(angle: float, freedom: int) -> float:
    """P(|T| < √freedom · tan angle), by the finite series for whole numbers (Abramowitz and Stegun, 26.7.3 and 4)."""
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = term if freedom > 1 else 0.0
    for place in range(2 + odd, freedom - 1, 2):
        term *= math.cos(angle) ** 2 * (place - 1) / place
        total += term
    return 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total


def _lowest(loss: Callable[[float], float], lower: float, upper: float) -> float:
    """Where a function with one valley is lowest, by golden section: one new value per step."""
    left, right = upper - _GOLDEN * (upper - lower), lower + _GOLDEN * (upper - lower)
    at_left, at_right = loss(left), loss(right)
    for _ in range(40):  # the bracket shrinks to 6 / 2·10⁸
        if at_left < at_right:
            upper, right, at_right = right, left, at_left
            left = upper - _GOLDEN * (upper - lower)
            at_left = loss(left)
        else:
            lower, left, at_left = left, right, at_right
            right = lower + _GOLDEN * (upper - lower)
            at_right = loss(right)
    return (lower + upper) / 2


def _logarithms(probabilities: Tensor) -> Tensor:
    """ln p in float64; a probability that underflowed is not infinitely surprising."""
    return probabilities.double().clamp(min=torch.finfo(torch.float32).tiny).log()


def _ranks(values: Tensor) -> Tensor:
    """From 0; equal values share the mean of their ranks."""
    _, place, count = values.unique(return_inverse=True, return_counts=True)
    return (count.cumsum(0).double() - (count.double() + 1) / 2)[place]


def _averaged(each: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: statistics.fmean(one[name] for one in each) for name in each[0]}
