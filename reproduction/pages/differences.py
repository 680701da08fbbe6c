"""The tridiagonal model beside the others, run by run: differences between runs of the same seed, with t-intervals."""

from __future__ import annotations

from typing import NamedTuple

from pages.markdown import markdown_table
from reproduction.pages.rows import DIGITS, FASHION, LENET_100, LENET_250, Row
from reproduction.results.over_seeds import NOT_RUN, Spread, interval
from reproduction.results.quantities import Quantity, foreign, score
from reproduction.results.result_files import Results


class Measure(NamedTuple):
    """A figure in which two models are compared."""

    title: str
    figure: Quantity
    lower_is_better: bool = True
    percent: bool = False


SCORES = (
    Measure("error", score("error"), percent=True),
    Measure("NLL", score("nll")),
    Measure("Brier", score("brier")),
    Measure("ECE", score("ece"), percent=True),
)
FOREIGN = (
    Measure("AUROC by entropy", foreign("auroc_entropy"), lower_is_better=False),
    Measure("AUROC by mutual information", foreign("auroc_mutual_information"), lower_is_better=False),
    Measure("foreign called quite certain, 95 %", foreign("certain_outside", "0.95"), percent=True),
    Measure("foreign called quite certain, 99 %", foreign("certain_outside", "0.99"), percent=True),
)
FOREIGN_NETS = {"LeNet-100": "mnist-lenet100", "LeNet-250": "mnist-lenet250"}

_CIFAR = [Row("frequentist", "cifar10-frequentist"), Row("", "cifar10")]
_CIFAR += [Row("diagonal", "cifar10-diagonal"), Row("mean field", "cifar10-meanfield")]
_NETS = {
    "MNIST, LeNet-100": LENET_100,
    "MNIST, LeNet-250": LENET_250,
    "CIFAR-10, paper's setting": _CIFAR,
    "Fashion-MNIST, LeNet-100": FASHION,
    "Digits": DIGITS,
}


def score_differences(results: Results) -> str:
    """Tridiagonal minus each of the others, for every network and score."""
    body = []
    for net, (plain, ours, *others) in _NETS.items():
        for title, rival in (plain, *others):
            cells = [_cell(results, ours.experiment, rival, measure) for measure in SCORES]
            body.append([net, title.rpartition(", ")[2], *cells])
    return markdown_table(["network", "tridiagonal minus", *(measure.title for measure in SCORES)], body)


def score_sentence(results: Results) -> str:
    """How often the tridiagonal model is better and worse than the diagonal one beyond the error of the seeds."""
    found = [
        _difference(results, ours.experiment, f"{ours.experiment}-diagonal", measure)
        for _, ours, *_ in _NETS.values()
        for measure in SCORES
    ]
    signs = [each.sign for each in found if each is not None]
    decided = [sign for sign in signs if sign is not None]
    if not decided:
        return "Too few runs to compare the tridiagonal model with the diagonal one."
    return (
        f"Beside the diagonal model, of {len(decided)} comparisons (a network and a score each), the tridiagonal one "
        f"is better in {decided.count(-1)}, worse in {decided.count(1)}, and in {decided.count(0)} the difference is "
        "within error. No correction is made for looking at many of them."
    )


def foreign_differences(results: Results) -> str:
    """Tridiagonal minus diagonal on foreign images."""
    body = [
        [net, *(_cell(results, name, f"{name}-diagonal", measure) for measure in FOREIGN)]
        for net, name in FOREIGN_NETS.items()
    ]
    return markdown_table(["tridiagonal minus diagonal", *(measure.title for measure in FOREIGN)], body)


def foreign_sentence(results: Results) -> str:
    """In how many pairs of runs with the same seed the tridiagonal model is the worse one, in words."""
    counts = [(measure.title, *_worse(results, measure)) for measure in FOREIGN]
    if not any(pairs for _, _, pairs in counts):
        return "Foreign images: no pair of runs, tridiagonal and diagonal with the same seed, is stored."
    start = (
        "On foreign images (networks trained on MNIST, asked about Fashion-MNIST) the tridiagonal model was worse than "
        "the diagonal one in"
    )
    end = "This stands until a later experiment says otherwise."
    if len({(worse, pairs) for _, worse, pairs in counts}) == 1:
        _, worse, pairs = counts[0]
        titles = "; ".join(measure.title for measure in FOREIGN)
        pairing = f"{worse} of {pairs} paired runs (same network, same seed)"
        return f"{start} {pairing}, by each of the four measures: {titles}. {end}"
    each = ", ".join(f"{worse} of {pairs} by {title}" for title, worse, pairs in counts)
    return f"{start} these numbers of paired runs (same network, same seed): {each}. {end}"


def _worse(results: Results, measure: Measure) -> tuple[int, int]:
    """Pairs of runs in which the tridiagonal model is worse, and all pairs."""
    found = [
        difference
        for name in FOREIGN_NETS.values()
        for difference in results.differences(name, f"{name}-diagonal", measure.figure).values()
    ]
    worse = [each > 0 if measure.lower_is_better else each < 0 for each in found]
    return sum(worse), len(worse)


def _cell(results: Results, ours: str, rival: str, measure: Measure) -> str:
    """The difference with its interval; in bold where 0 is not in it."""
    found = _difference(results, ours, rival, measure)
    if found is None:
        return NOT_RUN
    text = interval(found, 2, 100, " %") if measure.percent else interval(found)
    return f"**{text}**" if found.sign else text


def _difference(results: Results, ours: str, rival: str, measure: Measure) -> Spread | None:
    return results.difference(ours, rival, measure.figure)
