"""A run judged by the rows that it has never seen, and several runs beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from tribayes._errors import is_number, refusal
from tribayes._text import figures, format_table, level_text, percent, printable
from tribayes.distributed.processes import processes
from tribayes.nn.module import BayesianModule
from tribayes.own.own_run import LEVEL, SAMPLES, OwnRun, in_units_of
from tribayes.prediction import ClassificationSummary, ClassPredictive, Predictive, RegressionPredictive
from tribayes.prediction.chance import coverage_remarks
from tribayes.runs import comparison
from tribayes.runs.evaluation import LEVELS
from tribayes.runs.folder import RunFolder


def judge(run: OwnRun, model: BayesianModule, samples: int = SAMPLES, progress: bool = False) -> str:
    """The scores of a run on its test rows, in words; they are kept in evaluation.json, by the first process."""
    pred, truth = tested(run, model, samples, progress)
    held = promised(run, pred, truth)
    assert isinstance(pred, ClassPredictive | RegressionPredictive)
    summary = pred.summary(truth, LEVELS)
    scores = {"task": run.setting.task, **summary.as_dict(), "conformal": held}
    if processes().first:
        run.save_evaluation(scores, next(model.parameters()).device)
    return f"{summary}\n\n{promise_in_words(held)}"


def tested(run: OwnRun, model: BayesianModule, samples: int, progress: bool) -> tuple[Predictive, Tensor]:
    """What the networks say about the test rows, and the truth, both in the units of the table."""
    test = run.part("test", next(model.parameters()).device)
    assert isinstance(test.inputs, Tensor)
    return run.ask(model, test.inputs, samples, progress), in_units_of(test.targets, run.form)


def promised(run: OwnRun, pred: Predictive, truth: Tensor) -> dict[str, Any]:
    """How many truths the conformal intervals or sets hold, and how large these are: a width, or classes."""
    conformal = run.widths.conformal
    if isinstance(pred, RegressionPredictive):
        lower, upper = conformal.intervals(pred, LEVEL)
        held, size = (lower <= truth) & (truth <= upper), upper - lower
    else:
        assert isinstance(pred, ClassPredictive)
        sets = conformal.sets(pred, LEVEL)
        held, size = sets.gather(1, truth.unsqueeze(1)), sets.sum(1)
    share, mean = float(held.double().mean()), float(size.double().mean())
    kind = "interval" if isinstance(pred, RegressionPredictive) else "set"
    return {"kind": kind, "level": LEVEL, "covered": share, "size": mean, "examples": len(truth)}


def promise_in_words(held: dict[str, Any]) -> str:
    """The same as a sentence, and whether it is beyond chance."""
    size = f"width {figures(held['size'])}" if held["kind"] == "interval" else f"{held['size']:.2f} classes"
    found = (
        f"The {level_text(held['level'])} conformal {held['kind']}s hold {percent(held['covered'], 1)} of "
        f"{held['examples']:,} true answers (mean {size})."
    )
    if held["covered"] > held["level"] and held["kind"] == "set":
        return found  # a set holds its label at least, so sure classifiers hold more than was promised
    return " ".join([found, *coverage_remarks(held["level"], held["covered"], held["examples"])])


def compared(runs: Sequence[RunFolder]) -> str:
    """The figures of evaluated runs as a table: all of classes, or all of values."""
    scores = [run.evaluation() for run in runs]
    values = [found.get("task") == "regression" for found in scores]
    if not any(values):
        for found in scores:
            ClassificationSummary.from_dict(found)  # an error where one was changed
        return comparison(runs)
    if not all(values):
        odd = runs[values.index(False)]
        raise refusal("RUN", str(odd.folder), "predict values, as others here do", "compare classes among themselves")
    header = ["run", "data", "seed", "RMSE", "log density", "covered at 95 %", "width", "promised 95 % held", "width"]
    rows = [
        [printable(run.folder), printable(run.name), run.seed, *_figures(found)]
        for run, found in zip(runs, scores, strict=True)
    ]
    return format_table(header, rows)


def _figures(found: dict[str, Any]) -> list[object]:
    """RMSE, density, and how much both kinds of intervals cover, with their widths."""
    try:
        own, held = found["coverage"]["0.95"], found["conformal"]
        numbers = [found["rmse"], found["log_likelihood"], own["covered"], own["width"], held["covered"], held["size"]]
    except (KeyError, TypeError) as error:
        raise refusal("scores", sorted(found), "have RMSE, density and coverage", "evaluate the run again") from error
    if not all(map(is_number, numbers)):
        raise refusal("scores", numbers, "be numbers", "evaluate the run again")
    rmse, density, covered, width, held_share, held_width = map(float, numbers)
    return [figures(rmse), density, percent(covered, 1), figures(width), percent(held_share, 1), figures(held_width)]
