"""Figures of a trained network: as it is, and after `tb.calibrate` on rows that it is not measured on."""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

import tribayes as tb
from tribayes.prediction.calibration import FEWEST
from tribayes.prediction.predictive import ClassPredictive, RegressionPredictive

LEVEL = 0.95  # of the intervals whose coverage is counted
MOST_CALIBRATING = 1_000  # rows: more would cost more than the training
CALIBRATING_NETWORKS = 50  # at most

Figures = dict[str, float]


class Rows(NamedTuple):
    """Inputs and targets."""

    inputs: Tensor
    targets: Tensor

    def part(self, start: int, stop: int | None = None) -> Rows:
        return Rows(self.inputs[start:stop], self.targets[start:stop])


class Trained(NamedTuple):
    """A network with what it needs to be asked."""

    model: nn.Module
    likelihood: tb.Likelihood
    bayesian: bool = True
    unit: float = 1.0  # of the target, in which a regression was trained


def judged_on_held_out(trained: Trained, held_out: Rows, networks: int, seed: int) -> Figures:
    """All held-out rows; then calibrated on the first half of them, and measured on the other."""
    half = calibrating_rows(len(held_out.targets))
    return _judged(trained, held_out, held_out.part(0, half), half, networks, seed)


def judged_on_test(trained: Trained, test: Rows, held_out: Rows, networks: int, seed: int) -> Figures:
    """The test rows, before and after a calibration on the held-out ones."""
    return _judged(trained, test, held_out, 0, networks, seed)


def calibrating_rows(count: int) -> int:
    """How many of the held-out rows calibrate: half, unless that is fewer than `tb.calibrate` takes.

    >>> calibrating_rows(400), calibrating_rows(55)
    (200, 30)
    """
    return max(FEWEST, count // 2)


def _judged(trained: Trained, rows: Rows, calibrating: Rows, rest: int, networks: int, seed: int) -> Figures:
    """Scores on all rows; on those from `rest` on also the NLL before and after the calibration."""
    if not trained.bayesian:
        return _plain(trained.model, rows)
    surprise, figures = _asked(trained, rows, networks, seed)
    found = tb.calibrate(
        trained.model,
        *calibrating.part(0, MOST_CALIBRATING),
        trained.likelihood,
        samples=min(networks, CALIBRATING_NETWORKS),
        seed=seed,
        progress=False,
    )
    _, scores = _asked(trained, rows.part(rest), networks, seed)
    found.undo()
    own = {f"calibrated_{name}": value for name, value in scores.items()}
    return figures | own | {"rest_nll": float(surprise[rest:].mean()), "tau_factor": found.tau_factor}


def _asked(trained: Trained, rows: Rows, networks: int, seed: int) -> tuple[Tensor, Figures]:
    """−ln p of every row, and the scores."""
    pred = tb.predict(trained.model, rows.inputs, networks, likelihood=trained.likelihood, seed=seed, progress=False)
    if isinstance(pred, RegressionPredictive):
        return _regression(pred, rows.targets, trained.unit)
    return _classes(cast(ClassPredictive, pred).mean, rows.targets)


def _regression(pred: RegressionPredictive, targets: Tensor, unit: float) -> tuple[Tensor, Figures]:
    summary = pred.summary(targets, levels=(LEVEL,))
    surprise = math.log(unit) - pred.log_density(targets).double()
    scores = {"rmse": summary.rmse * unit, "coverage": summary.coverage[LEVEL].covered}
    return surprise, {"nll": float(surprise.mean()), **scores}


def _classes(chances: Tensor, labels: Tensor) -> tuple[Tensor, Figures]:
    smallest = torch.finfo(chances.dtype).tiny
    surprise = -chances.gather(-1, labels.unsqueeze(-1)).squeeze(-1).clamp(min=smallest).double().log()
    error = float((chances.argmax(-1) != labels).double().mean())
    ece = tb.metrics.calibration_error(chances, labels)
    return surprise, {"nll": float(surprise.mean()), "error": error, "ece": ece}


@torch.no_grad()
def _plain(net: nn.Module, rows: Rows) -> Figures:
    chances = torch.cat([net(some).softmax(-1) for some in rows.inputs.split(1_000)])
    return _classes(chances, rows.targets)[1]
