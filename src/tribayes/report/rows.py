"""The library's table objects as rows of a page's tables."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from tribayes.nn.convert import bayesian_modules
from tribayes.nn.module import BayesianModule
from tribayes.nn.table import PosteriorTable
from tribayes.plots.style import level_text, percent
from tribayes.prediction import ClassificationSummary, LayerReport
from tribayes.prediction.summary import Counts

Rows = list[list[object]]


def score_rows(summary: ClassificationSummary) -> Rows:
    """Quantity, value, what it means."""
    wrong = round(summary.error * summary.examples)
    auroc = "-" if summary.error_auroc is None else f"{summary.error_auroc:.3f}"
    return [
        ["test error", percent(summary.error, 2), f"{wrong:,} of {summary.examples:,} labels are wrong"],
        ["negative log likelihood", f"{summary.nll:.4f}", "nats an example; surprise at the true class, 0 is best"],
        ["Brier score", f"{summary.brier:.4f}", "squared distance from the truth, 0 is best, 2 worst"],
        ["expected calibration error", percent(summary.ece, 2), "mean distance of confidence and accuracy"],
        ["AUROC of errors by entropy", auroc, "chance that a wrong label is less sure than a right one, 1 is best"],
    ]


def count_rows(summary: ClassificationSummary) -> Rows:
    """Level, prediction, how many are quite certain and how many not."""
    rows: Rows = []
    for level, counts in summary.counts.items():
        rows += [[level_text(level), *row] for row in _both(counts)]
    return rows


def _both(counts: Counts) -> Rows:
    return [
        ["right", *_with_shares(counts.correct_certain, counts.correct_uncertain)],
        ["wrong", *_with_shares(counts.wrong_certain, counts.wrong_uncertain)],
    ]


def _with_shares(certain: int, uncertain: int) -> list[str]:
    total = certain + uncertain
    return [f"{part:,} ({percent(part / total, 1)})" if total else "0" for part in (certain, uncertain)]


def posterior_rows(table: PosteriorTable) -> Rows:
    """Tensor, shape, K, τ, ρ."""
    return [[row.name, "×".join(map(str, row.shape)), row.K, row.tau, row.rho] for row in table]


def layer_rows(report: LayerReport) -> Rows:
    """Layer drawn, epistemic, standard deviation, share."""
    rows: Rows = [[row.layer, row.epistemic, row.std, percent(row.share)] for row in report]
    return [*rows, [report.everything.layer, report.everything.epistemic, report.everything.std, ""]]


def whole_posterior(model: nn.Module) -> PosteriorTable:
    """One table for a model, also where it contains several Bayesian modules: names are those within the model."""
    bayesian_modules(model)  # an error where there is none
    named = [(path, module) for path, module in model.named_modules() if isinstance(module, BayesianModule)]
    rows = [
        replace(row, name=f"{path}.{row.name}" if path else row.name)
        for path, module in named
        for row in module.posterior()
    ]
    return PosteriorTable(tuple(rows))
