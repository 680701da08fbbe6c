"""The definitions once more, as loops over plain numbers: what every result of a prediction is checked against."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np


def quantile(values: Sequence[float], probability: float) -> float:
    """Linear interpolation between order statistics: number ⌊h⌋ and the next, h = probability · (S − 1)."""
    ordered = sorted(values)
    place = probability * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def interval(samples: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """(lower, upper), each (N, C), of samples (S, N, C)."""
    _, examples, classes = samples.shape
    bounds = np.empty((2, examples, classes))
    for n, c in itertools.product(range(examples), range(classes)):
        bounds[0, n, c] = quantile(samples[:, n, c].tolist(), (1 - level) / 2)
        bounds[1, n, c] = quantile(samples[:, n, c].tolist(), 1 - (1 - level) / 2)
    return bounds[0], bounds[1]


def overlap(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether two closed intervals have a point in common."""
    return max(one[0], other[0]) <= min(one[1], other[1])


def label(mean: Sequence[float]) -> int:
    """The first class of the largest probability."""
    return max(range(len(mean)), key=lambda c: (mean[c], -c))


def certain(lower: np.ndarray, upper: np.ndarray, labels: Sequence[int]) -> list[bool]:
    """The paper's decision, pair by pair: the label's interval overlaps no other class's."""
    decisions = []
    for low, high, own in zip(lower, upper, labels, strict=True):
        boxes = list(zip(low.tolist(), high.tolist(), strict=True))
        decisions.append(not any(overlap(boxes[own], boxes[c]) for c in range(len(boxes)) if c != own))
    return decisions


def counts(sure: Sequence[bool], right: Sequence[bool]) -> dict[str, int]:
    """Certain and uncertain × correct and wrong."""
    table = dict.fromkeys(("correct_certain", "correct_uncertain", "wrong_certain", "wrong_uncertain"), 0)
    for is_sure, is_right in zip(sure, right, strict=True):
        table[f"{'correct' if is_right else 'wrong'}_{'certain' if is_sure else 'uncertain'}"] += 1
    return table


def entropy(probabilities: Sequence[float]) -> float:
    """In nats, 0 ln 0 = 0."""
    return -sum(p * math.log(p) for p in probabilities if p > 0)


def entropies(samples: np.ndarray) -> tuple[list[float], list[float]]:
    """For each example the entropy of the mean, and the mean of the entropies."""
    count, examples, _ = samples.shape
    total = [entropy(samples[:, n].mean(0).tolist()) for n in range(examples)]
    expected = [sum(entropy(samples[s, n].tolist()) for s in range(count)) / count for n in range(examples)]
    return total, expected


def information(samples: np.ndarray) -> list[float]:
    """Mutual information of label and network as the mean divergence of a network from the average of all."""
    means = samples.mean(0)
    return [
        sum(p * math.log(p / m) for row in samples[:, n] for p, m in zip(row, means[n], strict=True) if p > 0)
        / len(samples)
        for n in range(samples.shape[1])
    ]


def calibration(confidence: Sequence[float], right: Sequence[bool], bins: int) -> list[tuple[int, float, float]]:
    """(count, mean confidence, accuracy) of each equal-width bin (lower, upper]."""
    rows = []
    for b in range(bins):
        members = [i for i, c in enumerate(confidence) if b / bins < c <= (b + 1) / bins or (c == 0 and b == 0)]
        size = len(members)
        mean = sum(confidence[i] for i in members) / size if size else math.nan
        accuracy = sum(right[i] for i in members) / size if size else math.nan
        rows.append((size, mean, accuracy))
    return rows


def calibration_error(confidence: Sequence[float], right: Sequence[bool], bins: int) -> float:
    """Mean |confidence − accuracy| over bins, weighted by their sizes."""
    rows = calibration(confidence, right, bins)
    return sum(size * abs(mean - accuracy) for size, mean, accuracy in rows if size) / len(confidence)


def negative_log_likelihood(mean: np.ndarray, targets: Sequence[int]) -> float:
    return -sum(math.log(row[t]) for row, t in zip(mean.tolist(), targets, strict=True)) / len(targets)


def brier(mean: np.ndarray, targets: Sequence[int]) -> float:
    total = 0.0
    for row, target in zip(mean.tolist(), targets, strict=True):
        total += sum((p - (c == target)) ** 2 for c, p in enumerate(row))
    return total / len(targets)


def auroc(score: Sequence[float], positive: Sequence[bool]) -> float:
    """Share of pairs (positive, negative) in which the positive scores higher; equal scores count half."""
    wins = pairs = 0.0
    for i, j in itertools.product(range(len(score)), repeat=2):
        if positive[i] and not positive[j]:
            pairs += 1
            wins += 1.0 if score[i] > score[j] else 0.5 if score[i] == score[j] else 0.0
    return wins / pairs


def risk_curve(uncertainty: Sequence[float], wrong: Sequence[bool]) -> list[float]:
    """Risk at coverage 1/N … 1, averaged over every order of the examples that sorts the uncertainty."""
    curves = []
    for order in itertools.permutations(range(len(wrong))):
        ranked = [uncertainty[i] for i in order]
        if ranked == sorted(ranked):
            errors = list(itertools.accumulate(int(wrong[i]) for i in order))
            curves.append([errors[k] / (k + 1) for k in range(len(errors))])
    return [sum(column) / len(curves) for column in zip(*curves, strict=True)]
