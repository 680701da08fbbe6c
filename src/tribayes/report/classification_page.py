"""The standard page about a classifier: how good it is, whether its doubts can be trusted, what it learned."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from torch import Tensor, nn

from tribayes import plots
from tribayes._errors import refusal, wrong_type
from tribayes._text import level_text, number, percent
from tribayes.inference.history import History
from tribayes.nn.convert import bayesian_modules
from tribayes.nn.module import BayesianModule
from tribayes.nn.table import PosteriorTable
from tribayes.plots.example_plots import captions_of, grid_size
from tribayes.plots.style import check_images, check_type, drawn, names_of
from tribayes.plots.training_plot import bars_size
from tribayes.prediction import ClassPredictive, LayerReport
from tribayes.prediction.classification import confidently_wrong, telling_examples
from tribayes.prediction.predictive_base import DEFAULT_LEVELS
from tribayes.prediction.samples import Drawn, Moments
from tribayes.prediction.summary import COUNT_HEADER, ScoreRow, origin
from tribayes.report.page import Report, Section

_SQUARE, _WIDE = (4.3, 4.0), (4.3, 3.3)  # inches: narrow, so that type stays legible on a phone
_MOST_IMAGES = 24  # in the grid of wrong and certain ones
_REMARKS = {
    "sure": "A typical example the network is sure of: the sampled networks agree, and the boxes shrink to lines.",
    "two-way": "An example between two classes: the sampled networks disagree about which of them it is.",
    "hopeless": "An example the network cannot place: probability is spread over several classes.",
}
_WORDS = {
    "Sampled networks": (
        "The weights are not numbers but a probability distribution. Each sampled network is one draw of all weights; "
        "a prediction is the average of their answers."
    ),
    "Level and credible interval": (
        "The credible interval of a class at level 95 % leaves out 2.5 % of the sampled probabilities at either end."
    ),
    "Quite certain": (
        "The credible interval of the predicted class overlaps that of no other class. Otherwise the prediction is "
        "uncertain and deserves a second look. A higher level is harder to meet."
    ),
    "Entropy": "Total uncertainty of a prediction, in nats: 0 when one class has all the probability.",
    "Epistemic uncertainty": "The part due to not knowing the weights: the sampled networks disagree. More data help.",
    "Aleatoric uncertainty": "The part within each single network: the input is ambiguous. More data do not help.",
    "τ and ρ": (
        "τ is the standard deviation of a tensor's weights relative to their means: where it is large, the network "
        "tolerates much noise. ρ, between −½ and ½, is the correlation between neighbouring weights."
    ),
}


def classification_report(
    path: str | os.PathLike[str],
    pred: ClassPredictive,
    targets: Tensor,
    *,
    model: nn.Module | None = None,
    images: Tensor | None = None,
    history: History | None = None,
    foreign: ClassPredictive | None = None,
    layers: LayerReport | None = None,
    class_names: Sequence[str] | None = None,
    levels: Sequence[float] = DEFAULT_LEVELS,
    notes: Sequence[str] = (),
    title: str = "A Bayesian classifier and its doubts",
) -> Path:
    """Write one self-contained HTML page about a prediction; what is not given is left out. Returns its path.

    Args:
        path: the file to write; its folder is made. An old file stays as it was should anything fail.
        pred, targets: N predictions and their true classes, (N,); boxplots need `keep_samples=True`, the default.
        images: (N, 1, H, W) or (N, 3, H, W) in [0, 1], the examples themselves; `class_names` are C.
        model, history, layers: for τ and ρ, for the loss, and what `layer_report` returned.
        foreign: predictions for inputs of another kind.
        levels: credibility levels of the table; the pictures use the first.
        notes: sentences about the data and how it was used.

    Example:
        >>> model = tb.to_bayesian(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)))
        >>> images, targets = torch.rand(30, 1, 8, 8), torch.arange(30) % 3
        >>> pred = tb.predict(model, images, samples=50, progress=False)
        >>> classification_report(folder / "report.html", pred, targets, model=model, images=images).name
        'report.html'
    """
    case = _Case(pred, targets, class_names, levels)
    images = None if images is None else check_images(images, len(pred))
    seed = f" (seed {pred.origin.seed})" if isinstance(pred.origin, Drawn) else ""
    footer = f"Made with tribayes from {origin(pred.sample_count)}{seed}, {len(pred):,} examples."
    page = Report(title, _lead(case), footer)
    _add_numbers(page.section("Key numbers"), case)
    add_notes(page, notes)
    _add_examples(page.section("What the sampled networks say"), case, images)
    _add_trust(page.section("Can the uncertainty be trusted?"), case, images, foreign)
    if model is not None:
        add_posterior(page.section("What was learned about the weights"), model)
    if layers is not None:
        _add_layers(page.section("Where the uncertainty comes from"), layers)
    if history is not None:
        add_training(page.section("Training"), history)
    page.section("Words").definitions(_WORDS)  # for readers who did not read the paper
    return page.write(path)


class _Case:
    """What every section is about."""

    def __init__(
        self, pred: ClassPredictive, targets: Tensor, class_names: Sequence[str] | None, levels: Sequence[float]
    ) -> None:
        self.pred = check_type("pred", pred, ClassPredictive)
        self.targets = pred.checked_targets(targets)
        if not levels:
            raise refusal("levels", levels, "hold at least one level", "pass e.g. (0.95, 0.99)")
        self.names = names_of(class_names, pred.mean.shape[1])
        self.summary, self.level = pred.summary(self.targets, levels), levels[0]

    def verdict(self, example: int) -> str:
        label, target = int(self.pred.label[example]), int(self.targets[example])
        return f"predicted {self.names[label]}, true {self.names[target]}"


def add_notes(page: Report, notes: Sequence[str]) -> None:
    """A section about the data, where there is something to say."""
    if isinstance(notes, str) or not isinstance(notes, Sequence):
        raise wrong_type("notes", notes, "be a sequence of sentences", 'pass e.g. notes=["Test images alone."]')
    section = page.section("The data") if notes else None
    for note in notes:
        assert section is not None
        section.text(note)


def _lead(case: _Case) -> str:
    summary, counts = case.summary, case.summary.counts[case.level]
    certain = counts.correct_certain + counts.wrong_certain
    share = percent(certain / summary.examples)
    wrong = f"{summary.wrong:,} of {summary.examples:,} predictions are wrong ({percent(summary.error, 2)})"
    sure = f"The network is quite certain, at a level of {level_text(case.level)}, of {certain:,} ({share})"
    return " ".join([f"{wrong}. {sure}; wrong among these: {counts.wrong_certain:,}.", *summary.remarks])


def _add_numbers(section: Section, case: _Case) -> None:
    scores = [*case.summary.rows()]
    if not isinstance(case.pred.origin, Moments):
        worst = case.pred.monte_carlo_error(case.level).as_dict()["mean"]
        drawing = f"from drawing only {case.pred.sample_count} networks"
        meaning = f"largest standard error of a class's probability {drawing}"
        scores.append(ScoreRow("sampling error", number(worst, 3), meaning))
    section.table(ScoreRow._fields, scores)
    counts = []
    for row in case.summary.count_rows():
        parts, total = (row.certain, row.uncertain), row.certain + row.uncertain
        shares = [f"{part:,} ({percent(part / total, 1)})" if total else "0" for part in parts]
        counts.append((row.level, row.prediction, *shares))
    section.table(COUNT_HEADER, counts, caption="Correct predictions should be quite certain, wrong ones uncertain")


def _add_examples(section: Section, case: _Case, images: Tensor | None) -> None:
    """Boxplots of up to three examples, chosen by `telling_examples`."""
    pred, targets, names, level = case.pred, case.targets, case.names, case.level
    if not pred.keeps_samples:
        section.text("Not shown: the samples were not kept (predict with keep_samples=True).")
        return
    section.text(
        f"Each box holds the middle half of the {len(pred.samples)} sampled probabilities of a class, its line is "
        f"the median, the whiskers are the {level_text(level)} credible interval. The prediction is quite certain "
        "where no other whisker reaches into the shaded band."
    )
    for kind, example in telling_examples(pred, targets, level).items():
        image = None if images is None else images[example]
        given = {"image": image, "target": int(targets[example]), "class_names": names, "level": level}
        alt = f"Boxplots of the class probabilities of example {example}: {case.verdict(example)}"
        section.picture(drawn(plots.output_boxplot, 4.7, 3.2, pred, example, **given), alt, _REMARKS[kind])


def _add_trust(section: Section, case: _Case, images: Tensor | None, foreign: ClassPredictive | None) -> None:
    pred, targets = case.pred, case.targets
    kinds = "right and wrong predictions" if foreign is None else "right and wrong predictions and of foreign inputs"
    section.picture(
        drawn(plots.reliability_diagram, *_SQUARE, pred, targets),
        "Reliability diagram: accuracy against confidence in bins",
        "Where bars lie on the diagonal, a confidence of 90 % means right in 90 %; above it the network is too modest, "
        "below it too bold. Bins of few examples say little: see the numbers on top and the thin lines.",
    )
    section.picture(
        drawn(plots.risk_coverage_curve, *_SQUARE, pred, targets, level=case.level),
        "Risk-coverage curve: error among the predictions kept, against the share kept",
        "Set the most uncertain predictions aside (to the left), and fewer errors remain; the mark keeps only what is "
        f"quite certain at {level_text(case.level)}.",
    )
    section.picture(
        drawn(plots.uncertainty_histogram, *_WIDE, pred, targets, foreign=foreign),
        f"Histograms of the entropy of {kinds}",
        "Errors and foreign inputs should have larger entropy than right predictions; an AUROC of 1 tells them apart "
        "perfectly, 0.5 not at all.",
    )
    if images is None:
        return
    found = confidently_wrong(pred, targets, case.level)[:_MOST_IMAGES]
    draw = partial(plots.wrong_and_certain, level=case.level, class_names=case.names, most=_MOST_IMAGES)
    size = grid_size(captions_of(pred, targets, found, case.names))
    pairs = "; ".join(case.verdict(example) for example in found)
    section.picture(
        drawn(draw, *size, pred, targets, images),
        f"Images of wrong predictions that were quite certain: {pairs or 'none'}",
        "The errors no interval warned of: look at them first. Often the image is ambiguous or its label doubtful.",
    )


def add_posterior(section: Section, model: nn.Module) -> None:
    """τ and ρ of every tensor; of a model with several Bayesian modules, by its name within the model."""
    bayesian_modules(model)  # an error where there is none
    parts = [(path, part) for path, part in model.named_modules() if isinstance(part, BayesianModule)]
    found = (replace(row, name=f"{path}.{row.name}".lstrip(".")) for path, part in parts for row in part.posterior())
    table = PosteriorTable(tuple(found))
    rows = [(row.name, "×".join(map(str, row.shape)), row.K, row.tau, row.rho) for row in table]
    section.table(["tensor", "shape", "K", "τ", "ρ"], rows, caption="K is the number of weights")
    section.picture(
        drawn(plots.posterior_bars, *bars_size(len(table)), table),
        "Bars of τ and ρ for each tensor of the network, as in the table",
        "A long blue bar marks weights that may vary much without harm; a long striped one, neighbours that vary "
        "together (to the right) or against each other (to the left).",
    )


def _add_layers(section: Section, layers: LayerReport) -> None:
    check_type("layers", layers, LayerReport, "pass tribayes.layer_report(model, x)")
    section.text(
        "Each row draws the weights of one layer and keeps all others at their means. The rows do not add up to the "
        "last, in which all are drawn: a network is not linear in its weights."
    )
    section.table(["layer drawn", "epistemic (nats)", "std", "share"], layers.table_rows())


def add_training(section: Section, history: History) -> None:
    """The loss as it went."""
    section.picture(
        drawn(plots.training_curves, *_WIDE, history),
        f"Training curves over {len(history):,} iterations: loss, negative log likelihood and ν·KL",
        "The loss is the sum of the misfit to the data (negative log likelihood) and the price of leaving the prior "
        "(ν·KL); training has converged where it stays level.",
    )
