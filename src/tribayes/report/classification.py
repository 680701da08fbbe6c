"""The standard page about a classifier: how good it is, whether its doubts can be trusted, what it learned."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch import Tensor, nn

from tribayes import plots
from tribayes._errors import refusal, wrong_type
from tribayes.inference.training import History
from tribayes.nn.table import PosteriorTable
from tribayes.plots.checks import check_classes, check_images, names_of
from tribayes.plots.posterior import bars_size
from tribayes.plots.style import level_text, percent
from tribayes.plots.wrong import captions_of, confidently_wrong, grid_size
from tribayes.prediction import ClassificationSummary, ClassPredictive, LayerReport
from tribayes.prediction.predictive import DEFAULT_LEVELS
from tribayes.prediction.summary import origin
from tribayes.report.examples import telling_examples
from tribayes.report.glossary import GLOSSARY
from tribayes.report.page import Report, Section
from tribayes.report.picture import drawn
from tribayes.report.rows import count_rows, layer_rows, posterior_rows, score_rows, whole_posterior

_SQUARE, _WIDE = (4.3, 4.0), (4.3, 3.3)  # inches: narrow, so that type stays legible on a phone
_MOST_IMAGES = 24  # in the grid of wrong and certain ones
_REMARKS = {
    "sure": "An example the network is sure of: all sampled networks agree, and the boxes shrink to lines.",
    "two-way": "An example between two classes: the sampled networks disagree about which of them it is.",
    "hopeless": "The example the network is least sure of: probability is spread over several classes.",
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
    title: str = "A Bayesian classifier and its doubts",
) -> Path:
    """Write one self-contained HTML page about a prediction; what is not given is left out.

    Args:
        path: the file to write; its folder is made. An old file stays as it was should anything fail.
        pred: N predictions; their boxplots need `keep_samples=True`, the default of `predict`.
        targets: (N,) true classes.
        model: for the table and picture of τ and ρ.
        images: (N, 1, H, W) or (N, 3, H, W) in [0, 1], the examples themselves.
        history: what `fit` returned.
        foreign: predictions for inputs of another kind.
        layers: what `layer_report` returned.
        class_names: C names.
        levels: credibility levels of the table; the pictures use the first.
        title: of the page.

    Returns:
        The path of the page.

    Example:
        >>> classification_report("runs/report.html", pred, targets, model=model, images=images, history=history)
    """
    targets = check_classes("pred", pred).checked_targets(targets)
    if not levels:
        raise refusal("levels", levels, "hold at least one level", "pass e.g. (0.95, 0.99)")
    if history is not None and not isinstance(history, History):
        raise wrong_type("history", type(history).__name__, "be a History", "pass what tribayes.fit returned")
    if layers is not None and not isinstance(layers, LayerReport):
        raise wrong_type("layers", type(layers).__name__, "be a LayerReport", "pass tribayes.layer_report(model, x)")
    images = None if images is None else check_images(images, len(pred))
    names_of(class_names, pred.mean.shape[1])
    posterior = None if model is None else whole_posterior(model)
    case = _Case(pred, targets, images, class_names, pred.summary(targets, levels), levels[0])
    page = Report(title, _lead(case), _footer(pred))
    _add_numbers(page.section("Key numbers"), case)
    _add_examples(page.section("What the sampled networks say"), case)
    _add_trust(page.section("Can the uncertainty be trusted?"), case, foreign)
    if posterior is not None:
        _add_posterior(page.section("What was learned about the weights"), posterior)
    if layers is not None:
        _add_layers(page.section("Where the uncertainty comes from"), layers)
    if history is not None:
        _add_training(page.section("Training"), history)
    page.section("Words").definitions(GLOSSARY)
    return page.write(path)


@dataclass(frozen=True)
class _Case:
    """What every section is about."""

    pred: ClassPredictive
    targets: Tensor
    images: Tensor | None
    class_names: Sequence[str] | None
    summary: ClassificationSummary
    level: float

    def verdict(self, example: int) -> str:
        """Its classes in words."""
        label, target = int(self.pred.label[example]), int(self.targets[example])
        names = range(self.pred.mean.shape[1]) if self.class_names is None else self.class_names
        return f"predicted {names[label]}, true {names[target]}"


def _lead(case: _Case) -> str:
    summary, counts = case.summary, case.summary.counts[case.level]
    wrong, certain = round(summary.error * summary.examples), counts.correct_certain + counts.wrong_certain
    share = percent(certain / summary.examples)
    return (
        f"{wrong:,} of {summary.examples:,} predictions are wrong ({percent(summary.error, 2)}). The network is quite "
        f"certain, at a level of {level_text(case.level)}, of {certain:,} ({share}); wrong among these: "
        f"{counts.wrong_certain:,}."
    )


def _footer(pred: ClassPredictive) -> str:
    return f"Made with tribayes from {origin(pred.sample_count)} (seed {pred.seed}), {len(pred):,} examples."


def _add_numbers(section: Section, case: _Case) -> None:
    section.table(["quantity", "value", "meaning"], [*score_rows(case.summary), *_sampling_error(case)])
    section.table(
        ["level", "prediction", "quite certain", "uncertain"],
        count_rows(case.summary),
        caption="Right predictions should be quite certain, wrong ones uncertain",
    )


def _sampling_error(case: _Case) -> list[list[str]]:
    """A row on what drawing so few networks does; none where none was drawn."""
    if case.pred.method == "moments":
        return []
    worst = case.pred.monte_carlo_error(case.level).as_dict()["mean"]
    meaning = f"largest standard error of a class's probability from drawing only {case.pred.sample_count} networks"
    return [["sampling error", f"{worst:.3f}", meaning]]


def _add_examples(section: Section, case: _Case) -> None:
    if not case.pred.keeps_samples:
        section.text("Not shown: the samples were not kept (predict with keep_samples=True).")
        return
    section.text(
        f"Each box holds the middle half of the {len(case.pred.samples)} sampled probabilities of a class, its line is "
        f"the median, the whiskers are the {level_text(case.level)} credible interval. The prediction is quite certain "
        "where no other whisker reaches into the shaded band."
    )
    for kind, example in telling_examples(case.pred, case.targets, case.level).items():
        draw = partial(
            plots.output_boxplot,
            case.pred,
            example,
            image=None if case.images is None else case.images[example],
            target=int(case.targets[example]),
            class_names=case.class_names,
            level=case.level,
        )
        alt = f"Boxplots of the class probabilities of example {example}: {case.verdict(example)}"
        section.picture(drawn(draw, 4.7, 3.2), alt, _REMARKS[kind])


def _add_trust(section: Section, case: _Case, foreign: ClassPredictive | None) -> None:
    pred, targets, level = case.pred, case.targets, level_text(case.level)
    kinds = "right and wrong predictions" if foreign is None else "right and wrong predictions and of foreign inputs"
    section.picture(
        drawn(partial(plots.reliability_diagram, pred, targets), *_SQUARE),
        "Reliability diagram: accuracy against confidence in bins",
        "Where bars lie on the diagonal, a confidence of 90 % means right in 90 %; above it the network is too modest, "
        "below it too bold. Bins of few examples say little: see the numbers on top and the thin lines.",
    )
    section.picture(
        drawn(partial(plots.risk_coverage_curve, pred, targets, level=case.level), *_SQUARE),
        "Risk-coverage curve: error among the predictions kept, against the share kept",
        "Set the most uncertain predictions aside (to the left), and fewer errors remain; the mark keeps only what is "
        f"quite certain at {level}.",
    )
    section.picture(
        drawn(partial(plots.uncertainty_histogram, pred, targets, foreign=foreign), *_WIDE),
        f"Histograms of the entropy of {kinds}",
        "Errors and foreign inputs should have larger entropy than right predictions; an AUROC of 1 tells them apart "
        "perfectly, 0.5 not at all.",
    )
    _add_wrong(section, case)


def _add_wrong(section: Section, case: _Case) -> None:
    """The grid of images that were wrong and quite certain."""
    images = case.images
    if images is None:
        return
    found = confidently_wrong(case.pred, case.targets, case.level)[:_MOST_IMAGES]
    captions = captions_of(case.pred, case.targets, found, names_of(case.class_names, case.pred.mean.shape[1]))
    draw = partial(
        plots.wrong_and_certain,
        case.pred,
        case.targets,
        images,
        level=case.level,
        class_names=case.class_names,
        most=_MOST_IMAGES,
    )
    pairs = "; ".join(case.verdict(example) for example in found)
    section.picture(
        drawn(draw, *grid_size(captions)),
        f"Images of wrong predictions that were quite certain: {pairs or 'none'}",
        "The errors no interval warned of: look at them first. Often the image is ambiguous or its label doubtful.",
    )


def _add_posterior(section: Section, table: PosteriorTable) -> None:
    section.table(["tensor", "shape", "K", "τ", "ρ"], posterior_rows(table), caption="K is the number of weights")
    section.picture(
        drawn(partial(plots.posterior_bars, table), *bars_size(len(table))),
        "Bars of τ and ρ for each tensor of the network, as in the table",
        "A long blue bar marks weights that may vary much without harm; a long striped one, neighbours that vary "
        "together (to the right) or against each other (to the left).",
    )


def _add_layers(section: Section, layers: LayerReport) -> None:
    section.text(
        "Each row draws the weights of one layer and keeps all others at their means. The rows do not add up to the "
        "last, in which all are drawn: a network is not linear in its weights."
    )
    section.table(["layer drawn", "epistemic (nats)", "std", "share"], layer_rows(layers))


def _add_training(section: Section, history: History) -> None:
    section.picture(
        drawn(partial(plots.training_curves, history), *_WIDE),
        f"Training curves over {len(history):,} iterations: loss, negative log likelihood and ν·KL",
        "The loss is the sum of the misfit to the data (negative log likelihood) and the price of leaving the prior "
        "(ν·KL); training has converged where it stays level.",
    )
