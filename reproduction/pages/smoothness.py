"""The paper's claim that learned correlations make training smoother, measured."""

from __future__ import annotations

from pages.markdown import markdown_table
from reproduction.pages.rows import CIFAR, FASHION, LENET_100, LENET_250, Row
from reproduction.pages.tables import seeds
from reproduction.results.over_seeds import NOT_RUN, number
from reproduction.results.quantities import scatter
from reproduction.results.result_files import Results

NETS = {
    "MNIST, LeNet-100": ("mnist-lenet100", LENET_100),
    "MNIST, LeNet-250": ("mnist-lenet250", LENET_250),
    "Fashion-MNIST, LeNet-100": ("fashion-lenet100", FASHION),
    "CIFAR-10": ("cifar10", CIFAR),
}
MEASURES = ("relative", "absolute")

_WORDS = {-1: "smoother", 1: "rougher", 0: "within error", None: "too few seeds to say"}


def smoothness_table(results: Results) -> str:
    """Both measures of every network and family."""
    rows = [
        [net, _family(row), *_spreads(results, row.experiment), seeds(len(results.runs(row.experiment)))]
        for net, (_, models) in NETS.items()
        for row in models
    ]
    return markdown_table(["network", "model", "relative spread", "absolute spread, nats", "seeds"], rows)


def smoothness_verdicts(results: Results) -> dict[str, dict[str, str]]:
    """Network → measure → what the tridiagonal model's training is, beside the diagonal one's."""
    return {net: {m: _verdict(results, name, m) for m in MEASURES} for net, (name, _) in NETS.items()}


def verdict_table(results: Results) -> str:
    verdicts = smoothness_verdicts(results)
    rows = [[net, *(found[measure] for measure in MEASURES)] for net, found in verdicts.items()]
    return markdown_table(["tridiagonal beside diagonal", *(f"by the {measure} spread" for measure in MEASURES)], rows)


def verdict_sentence(results: Results) -> str:
    """The claim against what was measured, in a sentence."""
    found = [verdict[measure] for verdict in smoothness_verdicts(results).values() for measure in MEASURES]
    decided = [word for word in found if word in (_WORDS[-1], _WORDS[1], _WORDS[0])]
    if not decided:
        return "Verdict: open, the runs it needs are missing."
    smoother, rougher, same = (decided.count(_WORDS[sign]) for sign in (-1, 1, 0))
    if smoother == len(decided):
        word = "confirmed"
    elif smoother and rougher:
        word = "mixed"
    elif 2 * smoother >= len(decided):
        word = "confirmed in part"
    else:
        word = "not confirmed"
    return (
        f"Verdict: **{word}**. Of {len(decided)} comparisons (a network and a measure each), the tridiagonal model is "
        f"smoother in {smoother}, rougher in {rougher}, and in {same} the seeds cannot tell. No correction is made for "
        "looking at many of them."
    )


def _verdict(results: Results, experiment: str, measure: str) -> str:
    found = results.difference(experiment, f"{experiment}-diagonal", scatter(measure))
    return NOT_RUN if found is None else _WORDS[found.sign]


def _spreads(results: Results, experiment: str) -> list[str]:
    return [number(results.spread(experiment, scatter(measure))) for measure in MEASURES]


def _family(row: Row) -> str:
    return row.title.removeprefix("LeNet-100, ").removeprefix("LeNet-250, ")
