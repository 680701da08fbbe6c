"""The HTML page about a run on one's own data."""

from __future__ import annotations

from pathlib import Path

from tribayes.distributed.processes import processes
from tribayes.nn.module import BayesianModule
from tribayes.own.image_folder import Pixels
from tribayes.own.judging import promise_in_words, promised, tested
from tribayes.own.own_run import LEVEL, OwnRun
from tribayes.prediction import ClassPredictive, RegressionPredictive
from tribayes.runs.evaluation import LEVELS


def write_page(run: OwnRun, path: Path, model: BayesianModule, samples: int, progress: bool) -> Path:
    """Write it: scores on the test rows, which rows did what, what was learned. Of several processes the first does."""
    from tribayes.report import classification_report, regression_report  # need matplotlib

    pred, truth = tested(run, model, samples, progress)
    if not processes().first:
        return path
    setting = run.setting
    notes = [
        *run.form.notes,
        f"The calibration: {run.widths.words}.",
        promise_in_words(promised(run, pred, truth)),
        f"Read from {setting.data}, as {setting.kind}; {setting.iterations:,} steps of {setting.batch} with a "
        f"divergence weighed {setting.kl_weight:.3g}, which of a table the calibration rows choose unless it is given.",
    ]
    title = f"{run.name}: {run.form.target.name}, seed {run.seed}"
    if isinstance(pred, RegressionPredictive):
        bounds = run.widths.conformal.intervals(pred, LEVEL)
        return regression_report(
            path,
            pred,
            truth,
            bounds=bounds,
            model=model,
            history=run.history(),
            notes=notes,
            levels=LEVELS,
            title=title,
        )
    assert isinstance(pred, ClassPredictive)
    images = run.prepared.inputs[run.prepared.parts.test] / 255 if isinstance(run.form.inputs, Pixels) else None
    return classification_report(
        path,
        pred,
        truth,
        model=model,
        images=images,
        history=run.history(),
        class_names=run.form.target.classes,
        levels=LEVELS,
        notes=notes,
        title=title,
    )
