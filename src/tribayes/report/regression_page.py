"""The standard page about predicted values: how good they are, whether their intervals hold, what was learned."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from torch import Tensor, nn

from tribayes import plots
from tribayes._errors import refusal, wrong_type
from tribayes._text import level_text, percent, to_digits
from tribayes.inference.history import History
from tribayes.plots.style import check_type, drawn
from tribayes.prediction import RegressionPredictive
from tribayes.prediction.predictive_base import DEFAULT_LEVELS
from tribayes.prediction.samples import Drawn
from tribayes.prediction.source import check_levels
from tribayes.prediction.summary import ScoreRow, origin
from tribayes.report.classification_page import add_notes, add_posterior, add_training
from tribayes.report.page import Report, Section

_WIDE = (5.6, 3.8)  # inches
_MOST_ROWS = 10  # of the table of surprises
_WORDS = {
    "Sampled networks": (
        "The weights are not numbers but a probability distribution. Each sampled network is one draw of all weights; "
        "a prediction is the average of their answers, and of the noise about each."
    ),
    "Covered": "The share of observations inside their interval. At a level of 95 % it should be 95 %.",
    "Epistemic uncertainty": "The part due to not knowing the weights: the sampled networks disagree. More data help.",
    "Aleatoric uncertainty": "The noise of the observations themselves. More data do not help.",
    "τ and ρ": (
        "τ is the standard deviation of a tensor's weights relative to their means: where it is large, the network "
        "tolerates much noise. ρ, between −½ and ½, is the correlation between neighbouring weights."
    ),
}


def regression_report(
    path: str | os.PathLike[str],
    pred: RegressionPredictive,
    targets: Tensor,
    *,
    bounds: tuple[Tensor, Tensor] | None = None,
    model: nn.Module | None = None,
    history: History | None = None,
    levels: Sequence[float] = DEFAULT_LEVELS,
    notes: Sequence[str] = (),
    title: str = "Predicted values and their doubts",
) -> Path:
    """Write one self-contained HTML page about predicted values, one output each. Returns its path.

    Args:
        path: the file to write; its folder is made. An old file stays as it was should anything fail.
        pred, targets: N predictions of one value, and the truth, (N,) or (N, 1); samples are kept.
        bounds: (lower, upper), (N, 1) each: intervals to judge by beside the posterior's own, as of a `Conformal`.
        model, history: for τ and ρ, and for the loss.
        levels: of the table; the pictures use the first.
        notes: sentences about the data and how it was used.

    Example:
        >>> model, x = tb.to_bayesian(nn.Linear(2, 1)), torch.randn(30, 2)
        >>> pred = tb.predict(model, x, samples=50, likelihood=tb.Gaussian(noise=0.5), progress=False)
        >>> regression_report(folder / "report.html", pred, x.sum(1), model=model).name
        'report.html'
    """
    check_type("pred", pred, RegressionPredictive)
    check_levels(levels)
    if pred.mean.shape[1:] != (1,) or not levels:
        raise refusal("pred, levels", (pred, levels), "be of one value each, with a level or more", "pick one output")
    if bounds is not None:
        _check_bounds(bounds, pred.mean.shape)
    truth, level = pred.checked_targets(targets), levels[0]
    summary = pred.summary(truth, levels)
    seed = f" (seed {pred.origin.seed})" if isinstance(pred.origin, Drawn) else ""
    lower, upper = pred.observation_interval(level) if bounds is None else bounds
    inside = (lower <= truth) & (truth <= upper)
    held = f"{int(inside.sum()):,} of {len(truth):,} observations lie in their {level_text(level)} interval"
    lead = " ".join([f"{held} ({percent(float(inside.double().mean()), 1)}).", *summary.remarks])
    page = Report(title, lead, f"Made with tribayes from {origin(pred.sample_count)}{seed}, {len(pred):,} examples.")
    page.section("Key numbers").table(ScoreRow._fields, summary.rows())
    add_notes(page, notes)
    _add_values(page.section("Predicted and observed"), pred, truth, level)
    _add_surprises(page.section("The largest surprises"), pred, truth, (lower, upper))
    if model is not None:
        add_posterior(page.section("What was learned about the weights"), model)
    if history is not None:
        add_training(page.section("Training"), history)
    page.section("Words").definitions(_WORDS)
    return page.write(path)


def _check_bounds(bounds: object, shape: tuple[int, ...]) -> None:
    sides = bounds if isinstance(bounds, tuple | list) else ()
    if len(sides) != 2 or not all(isinstance(side, Tensor) and side.shape == shape for side in sides):
        remedy = "pass what intervals() returned"
        raise wrong_type("bounds", bounds, f"be (lower, upper), tensors of the shape {tuple(shape)}", remedy)


def _add_values(section: Section, pred: RegressionPredictive, truth: Tensor, level: float) -> None:
    def draw(*, ax: Axes, **options: Any) -> Axes:
        plots.regression_band(pred.mean[:, 0], pred, observed=(pred.mean[:, 0], truth[:, 0]), ax=ax, **options)
        ax.set(xlabel="predicted", ylabel="observed")
        return ax

    section.picture(
        drawn(draw, *_WIDE, level=level),
        "Observed values as points over predicted ones, with the band that should hold them",
        "Points near the line were predicted well; the wide band should hold nearly all of them. Where the narrow "
        "band, of the function, is wide, the networks disagree.",
    )


def _add_surprises(section: Section, pred: RegressionPredictive, truth: Tensor, bounds: tuple[Tensor, Tensor]) -> None:
    distance, spread = ((truth - pred.mean).abs() / pred.std)[:, 0], float(truth.double().std(correction=0))
    rows = []
    for row in distance.argsort(descending=True, stable=True)[:_MOST_ROWS].tolist():
        values = (truth, pred.mean, *bounds)
        cells = (to_digits(float(value[row, 0]), 4, spread) for value in values)
        rows.append((row + 1, *cells, float(distance[row])))
    header = ["test row", "observed", "predicted", "lower", "upper", "standard deviations off"]
    section.table(header, rows, caption="Look at these first: an error in the table, or something it does not say")
