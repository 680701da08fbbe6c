"""How good a trained arm is: on held-out images always, on test images only when asked to.

Figures of one set of answers are in `judged`; `judge` asks the arm about every set and collects them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from benchmarks.modern.archive import Record
from benchmarks.modern.arms import Arm
from benchmarks.modern.sources import Study, Tests
from tribayes.prediction import metrics
from tribayes.prediction.quantiles import certain, quantiles
from tribayes.prediction.source import entropy
from tribayes.prediction.summary import Counts

LEVEL = 0.95  # of credible intervals
KEPT = 20_000  # probabilities kept of a corruption: all of 2,000 images of 10 classes, 200 of 100

Figures = dict[str, Any]


@dataclass
class Judgement:
    """Figures, mean probabilities, labels and seconds, by the name of the set."""

    figures: Figures = field(default_factory=dict)
    answers: dict[str, Tensor] = field(default_factory=dict)
    labels: dict[str, Tensor] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


def judge(arm: Arm, study: Study, test: bool) -> Judgement:
    """Everything about a trained arm."""
    ask = _asker(arm, study)
    found = Judgement()
    ask(study.held_out)  # what is made or tried once is not timed
    begin = perf_counter()
    samples, labels = ask(study.held_out), study.held_out_labels.cpu()
    found.seconds["held_out"] = perf_counter() - begin
    found.answers["held_out"], found.labels["held_out_labels"] = samples.mean(0), labels
    temperature = best_temperature(samples.mean(0), labels)
    found.figures |= {"temperature": temperature, "held_out": judged(samples, labels, temperature)}
    if test:
        begin = perf_counter()
        found.figures["test"] = _tested(ask, study.tests(), temperature, found)
        found.seconds["test"] = perf_counter() - begin
    return found


def judged(samples: Tensor, labels: Tensor, temperature: float | None = None) -> Figures:
    """Figures of probabilities (S, N, C) against labels; with a temperature also those of the scaled mean."""
    mean = samples.mean(0)
    wrong = mean.argmax(-1) != labels
    found: Figures = _scores(mean, labels)
    found["auroc_errors"] = metrics.auroc_or_none(entropy(mean), wrong)
    if len(samples) > 1:
        lower, upper = quantiles(samples, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
        found["certain"] = vars(Counts.of(certain(lower, upper, mean.argmax(-1)), ~wrong))
    if temperature is not None:
        found["scaled"] = _scores(scaled(mean, temperature), labels)
    return found


def best_temperature(probabilities: Tensor, labels: Tensor) -> float:
    """The T that makes softmax(ln p / T) most likely (Guo et al. 2017), by golden section over ln T."""
    logits = _logarithms(probabilities)

    def loss(log_temperature: float) -> float:
        return float(torch.nn.functional.cross_entropy(logits / math.exp(log_temperature), labels))

    lower, upper, ratio = math.log(0.05), math.log(20), (math.sqrt(5) - 1) / 2
    for _ in range(40):
        left, right = upper - ratio * (upper - lower), lower + ratio * (upper - lower)
        lower, upper = (lower, right) if loss(left) < loss(right) else (left, upper)
    return math.exp((lower + upper) / 2)


def scaled(probabilities: Tensor, temperature: float) -> Tensor:
    """The probabilities at another temperature."""
    return (_logarithms(probabilities) / temperature).softmax(-1)


def in_words(record: Record) -> str:
    """A line for the terminal: held-out images only."""
    one, seconds = record["held_out"], record["seconds"]
    text = f"held out: error {100 * one['error']:.2f} %, NLL {one['nll']:.4f}, ECE {100 * one['ece']:.2f} %"
    return f"{text}; {seconds['train']:.0f} s of training, {seconds['held_out']:.1f} s of asking"


def _tested(ask: Callable[[Tensor], Tensor], tests: Tests, temperature: float, found: Judgement) -> Figures:
    labels = tests.labels.cpu()
    samples = ask(tests.images)
    found.answers["test"], found.labels["test_labels"] = samples.mean(0), labels
    figures = judged(samples, labels, temperature)
    inside = _uncertainties(samples)
    figures["foreign"] = {}
    for name, images in tests.foreign.items():
        outside = ask(images)
        found.answers[f"foreign_{name}"] = outside.mean(0)
        figures["foreign"][name] = _told_apart(inside, _uncertainties(outside))
    if tests.votes is not None:
        figures["people"] = _beside_people(samples.mean(0), tests.votes.cpu())
    figures["corrupted"] = _corrupted(ask, tests, labels, temperature, found)
    return figures


def _corrupted(
    ask: Callable[[Tensor], Tensor], tests: Tests, labels: Tensor, temperature: float, found: Judgement
) -> Figures:
    """Means over severities for each kind, and over all."""
    by_kind: dict[str, list[Figures]] = {}
    for kind, severity, images in tests.corrupted():
        mean = ask(images).mean(0)
        truth = labels[: len(images)]
        scores = _scores(mean, truth)
        scores |= {f"scaled_{name}": value for name, value in _scores(scaled(mean, temperature), truth).items()}
        by_kind.setdefault(kind, []).append(scores)
        found.answers[f"corrupted_{kind}_{severity}"] = mean[: KEPT // mean.shape[-1]]
    kinds: Figures = {kind: _averaged(each) for kind, each in by_kind.items()}
    return {"mean": _averaged(list(kinds.values())), **kinds} if kinds else {}


def _asker(arm: Arm, study: Study) -> Callable[[Tensor], Tensor]:
    def ask(images: Tensor) -> Tensor:
        seen = study.prepared(images).contiguous(memory_format=arm.task.memory_format)
        return arm.predict(seen)

    return ask


def _scores(mean: Tensor, labels: Tensor) -> Figures:
    return {
        "error": float((mean.argmax(-1) != labels).double().mean()),
        "nll": metrics.negative_log_likelihood(mean, labels),
        "ece": metrics.calibration_error(mean, labels),
        "brier": metrics.brier_score(mean, labels),
    }


def _uncertainties(samples: Tensor) -> dict[str, Tensor]:
    found = {"entropy": entropy(samples.mean(0))}
    if len(samples) > 1:
        found["epistemic"] = found["entropy"] - entropy(samples).mean(0)
    return found


def _told_apart(inside: Mapping[str, Tensor], outside: Mapping[str, Tensor]) -> Figures:
    return {name: metrics.out_of_distribution_auroc(inside[name], outside[name]) for name in inside}


def _beside_people(mean: Tensor, votes: Tensor) -> Figures:
    """Cross-entropy to the shares of people's votes, and Spearman's correlation of the entropies."""
    said = -(votes.double() * _logarithms(mean)).sum(-1).mean()
    ranks = torch.stack([_ranks(entropy(mean)), _ranks(entropy(votes.to(mean)))])
    return {"cross_entropy": float(said), "spearman": float(torch.corrcoef(ranks)[0, 1])}


def _ranks(values: Tensor) -> Tensor:
    """From 0; equal values share the mean of their ranks."""
    _, place, count = values.unique(return_inverse=True, return_counts=True)
    return (count.cumsum(0).double() - (count.double() + 1) / 2)[place]


def _averaged(each: list[Figures]) -> Figures:
    return {name: sum(one[name] for one in each) / len(each) for name in each[0]}


def _logarithms(probabilities: Tensor) -> Tensor:
    return probabilities.double().clamp(min=torch.finfo(torch.float32).tiny).log()
