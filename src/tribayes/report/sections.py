"""The sections of the page about a classifier, each from what it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from tribayes import plots
from tribayes._text import level_text, number, percent
from tribayes.inference.fit import History
from tribayes.nn.table import PosteriorTable
from tribayes.plots.checks import names_of
from tribayes.plots.posterior_plot import bars_size
from tribayes.plots.wrong_images import captions_of, grid_size
from tribayes.prediction import ClassificationSummary, ClassPredictive, LayerReport
from tribayes.prediction.samples import Moments
from tribayes.prediction.selection import confidently_wrong, telling_examples
from tribayes.prediction.summary import COUNT_HEADER, CountRow, ScoreRow
from tribayes.report.page import Section
from tribayes.report.picture import drawn

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


@dataclass(frozen=True)
class Case:
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


def add_numbers(section: Section, case: Case) -> None:
    """The scores, and how many predictions are quite certain."""
    section.table(ScoreRow._fields, [*case.summary.rows(), *_sampling_error(case)])
    section.table(
        COUNT_HEADER,
        [(row.level, row.prediction, *_with_shares(row)) for row in case.summary.count_rows()],
        caption="Correct predictions should be quite certain, wrong ones uncertain",
    )


def _with_shares(row: CountRow) -> list[str]:
    """How many are certain and how many not, each with its share of both."""
    total = row.certain + row.uncertain
    return [f"{part:,} ({percent(part / total, 1)})" if total else "0" for part in (row.certain, row.uncertain)]


def _sampling_error(case: Case) -> list[ScoreRow]:
    """A row on what drawing so few networks does; none where none was drawn."""
    if isinstance(case.pred.origin, Moments):
        return []
    worst = case.pred.monte_carlo_error(case.level).as_dict()["mean"]
    meaning = f"largest standard error of a class's probability from drawing only {case.pred.sample_count} networks"
    return [ScoreRow("sampling error", number(worst, 3), meaning)]


def add_examples(section: Section, case: Case) -> None:
    """Boxplots of up to three examples, chosen by `telling_examples`."""
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


def add_trust(section: Section, case: Case, foreign: ClassPredictive | None) -> None:
    """Calibration, risk and coverage, uncertainty of right, wrong and foreign inputs."""
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


def _add_wrong(section: Section, case: Case) -> None:
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


def add_posterior(section: Section, table: PosteriorTable) -> None:
    """τ and ρ of every tensor, as a table and as bars."""
    rows = [(row.name, "×".join(map(str, row.shape)), row.K, row.tau, row.rho) for row in table]
    section.table(["tensor", "shape", "K", "τ", "ρ"], rows, caption="K is the number of weights")
    section.picture(
        drawn(partial(plots.posterior_bars, table), *bars_size(len(table))),
        "Bars of τ and ρ for each tensor of the network, as in the table",
        "A long blue bar marks weights that may vary much without harm; a long striped one, neighbours that vary "
        "together (to the right) or against each other (to the left).",
    )


def add_layers(section: Section, layers: LayerReport) -> None:
    """How much uncertainty each layer brings alone."""
    section.text(
        "Each row draws the weights of one layer and keeps all others at their means. The rows do not add up to the "
        "last, in which all are drawn: a network is not linear in its weights."
    )
    section.table(["layer drawn", "epistemic (nats)", "std", "share"], layers.table_rows())


def add_training(section: Section, history: History) -> None:
    """The loss and its parts along the iterations."""
    section.picture(
        drawn(partial(plots.training_curves, history), *_WIDE),
        f"Training curves over {len(history):,} iterations: loss, negative log likelihood and ν·KL",
        "The loss is the sum of the misfit to the data (negative log likelihood) and the price of leaving the prior "
        "(ν·KL); training has converged where it stays level.",
    )


def add_words(section: Section) -> None:
    """The page's words, for readers who did not read the paper."""
    section.definitions(_WORDS)
