"""The standard page about a classifier: how good it is, whether its doubts can be trusted, what it learned."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor, nn

from tribayes._errors import refusal, wrong_type
from tribayes._text import level_text, percent
from tribayes.inference.fit import History
from tribayes.nn.convert import bayesian_modules
from tribayes.nn.module import BayesianModule
from tribayes.nn.table import PosteriorTable
from tribayes.plots.checks import check_classes, check_images, names_of
from tribayes.prediction import ClassPredictive, LayerReport
from tribayes.prediction.predictive import DEFAULT_LEVELS
from tribayes.prediction.samples import Drawn
from tribayes.prediction.summary import origin
from tribayes.report.page import Report
from tribayes.report.sections import (
    Case,
    add_examples,
    add_layers,
    add_numbers,
    add_posterior,
    add_training,
    add_trust,
    add_words,
)


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
        >>> model = tb.to_bayesian(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)))
        >>> images, targets = torch.rand(30, 1, 8, 8), torch.arange(30) % 3
        >>> pred = tb.predict(model, images, samples=50, progress=False)
        >>> classification_report(folder / "report.html", pred, targets, model=model, images=images).name
        'report.html'
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
    posterior = None if model is None else _whole_posterior(model)
    case = Case(pred, targets, images, class_names, pred.summary(targets, levels), levels[0])
    page = Report(title, _lead(case), _footer(pred))
    add_numbers(page.section("Key numbers"), case)
    add_examples(page.section("What the sampled networks say"), case)
    add_trust(page.section("Can the uncertainty be trusted?"), case, foreign)
    if posterior is not None:
        add_posterior(page.section("What was learned about the weights"), posterior)
    if layers is not None:
        add_layers(page.section("Where the uncertainty comes from"), layers)
    if history is not None:
        add_training(page.section("Training"), history)
    add_words(page.section("Words"))
    return page.write(path)


def _lead(case: Case) -> str:
    summary, counts = case.summary, case.summary.counts[case.level]
    certain = counts.correct_certain + counts.wrong_certain
    share = percent(certain / summary.examples)
    wrong = f"{summary.wrong:,} of {summary.examples:,} predictions are wrong ({percent(summary.error, 2)})"
    sure = f"The network is quite certain, at a level of {level_text(case.level)}, of {certain:,} ({share})"
    return f"{wrong}. {sure}; wrong among these: {counts.wrong_certain:,}."


def _footer(pred: ClassPredictive) -> str:
    seed = f" (seed {pred.origin.seed})" if isinstance(pred.origin, Drawn) else ""
    return f"Made with tribayes from {origin(pred.sample_count)}{seed}, {len(pred):,} examples."


def _whole_posterior(model: nn.Module) -> PosteriorTable:
    """One table for a model, also where it contains several Bayesian modules: names are those within the model."""
    bayesian_modules(model)  # an error where there is none
    named = [(path, module) for path, module in model.named_modules() if isinstance(module, BayesianModule)]
    rows = [
        replace(row, name=f"{path}.{row.name}" if path else row.name)
        for path, module in named
        for row in module.posterior()
    ]
    return PosteriorTable(tuple(rows))
