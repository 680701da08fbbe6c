"""How good a trained arm is: on held-out images always, on test images only when asked to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

from torch import Tensor

from benchmarks.modern import figures
from benchmarks.modern.archive import Record
from benchmarks.modern.arms import Arm
from benchmarks.modern.figures import Figures
from benchmarks.modern.sources import Study, Tests

KEPT = 20_000  # probabilities kept of a corruption: all of 2,000 images of 10 classes, of 200 images of 100

Ask = Callable[[Tensor], Tensor]  # images of uint8 → probabilities (S, N, C)


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
    if study.device.type == "cuda":
        ask(study.held_out)  # what a GPU makes or tries once is not timed
    begin = perf_counter()
    samples, labels = ask(study.held_out), study.held_out_labels.cpu()
    found.seconds["held_out"] = perf_counter() - begin
    found.answers["held_out"], found.labels["held_out_labels"] = samples.mean(0), labels
    temperature = figures.best_temperature(samples.mean(0), labels)
    told = figures.figures(samples.mean(0), labels, samples, temperature)
    found.figures |= {"temperature": temperature, "held_out": told}
    if test:
        begin = perf_counter()
        found.figures["test"] = _tested(ask, study.tests(), temperature, found)
        found.seconds["test"] = perf_counter() - begin
    return found


def in_words(record: Record) -> str:
    """A line for the terminal: held-out images only."""
    one, seconds = record["held_out"], record["seconds"]
    text = f"held out: error {100 * one['error']:.2f} %, NLL {one['nll']:.4f}, ECE {100 * one['ece']:.2f} %"
    return f"{text}; {seconds['train']:.0f} s of training, {seconds['held_out']:.1f} s of asking"


def _tested(ask: Ask, tests: Tests, temperature: float, found: Judgement) -> Figures:
    samples, labels = ask(tests.images), tests.labels.cpu()
    mean = samples.mean(0)
    found.answers["test"], found.labels["test_labels"] = mean, labels
    told = figures.figures(mean, labels, samples, temperature)
    told["foreign"] = {}
    for name, images in tests.foreign.items():
        outside = ask(images)
        found.answers[f"foreign_{name}"] = outside.mean(0)
        both = (samples, outside) if len(samples) > 1 else (None, None)
        told["foreign"][name] = figures.told_apart(mean, outside.mean(0), *both)
    if tests.votes is not None:
        told["people"] = figures.beside_people(mean, tests.votes.cpu())
    each = {}
    for kind, severity, images in tests.corrupted():
        said = ask(images).mean(0)
        found.answers[f"corrupted_{kind}_{severity}"] = said[: KEPT // said.shape[-1]]
        each[kind, severity] = _shifted(said, labels[: len(images)], temperature)
    told["corrupted"] = figures.over_corruptions(each) if each else {}
    return told


def _shifted(probabilities: Tensor, labels: Tensor, temperature: float) -> dict[str, float]:
    """Scores of one corruption, as they are and at the temperature of held-out images."""
    cold = figures.scores(figures.scaled(probabilities, temperature), labels)
    return figures.scores(probabilities, labels) | {f"scaled_{name}": value for name, value in cold.items()}


def _asker(arm: Arm, study: Study) -> Ask:
    def ask(images: Tensor) -> Tensor:
        return arm.predict(study.prepared(images).contiguous(memory_format=arm.task.memory_format))

    return ask
