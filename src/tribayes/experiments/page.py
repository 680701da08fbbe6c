"""The HTML page about a run."""

from __future__ import annotations

from pathlib import Path

import torch

from tribayes.data import class_names
from tribayes.experiments.asking import bayesian_model, sampled_answers
from tribayes.experiments.evaluation import LEVELS
from tribayes.experiments.examples import load_split, shown_images
from tribayes.experiments.inputs import prepare
from tribayes.experiments.run import Run
from tribayes.inference import History


def report_run(run: Run, path: Path, data_dir: Path | None, device: torch.device, samples: int, progress: bool) -> Path:
    """The HTML page about a run."""
    from tribayes.report import classification_report  # needs matplotlib

    model = bayesian_model(run, device)
    split = load_split(run.setting, data_dir)
    _, test = prepare(run.setting.data, split, device, run.setting.validation)
    return classification_report(
        path,
        sampled_answers(run, model, test.images, samples, progress),
        test.labels,
        model=model,
        images=shown_images(run.setting, split),
        history=history_of(run),
        class_names=class_names(run.setting.data),
        levels=LEVELS,
        title=f"{run.setting.name}, seed {run.seed}",
    )


def history_of(run: Run) -> History:
    """Loss and NLL of every iteration, as far as records tell: each has the mean of its record."""
    history = History()
    for record in run.records():
        steps = record.iteration - len(history)
        history.loss += [record.loss] * steps
        history.nll += [record.nll] * steps
    return history
