"""Predictions go into torchmetrics as they are, and agree with our own summary."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tribayes as tb
from tests.libraries import library

torchmetrics = library("torchmetrics")


def test_classes() -> None:
    torch.manual_seed(0)
    model, x, y = tb.to_bayesian(nn.Linear(4, 3), tau=0.5), torch.randn(200, 4), torch.randint(3, (200,))
    pred = tb.predict(model, x, 50, progress=False)
    summary = pred.summary(y)
    accuracy = torchmetrics.classification.MulticlassAccuracy(3, average="micro")
    assert accuracy(pred.mean, y).item() == pytest.approx(1 - summary.error)
    calibration = torchmetrics.classification.MulticlassCalibrationError(3, n_bins=15)
    assert calibration(pred.mean.float(), y).item() == pytest.approx(summary.ece, abs=1e-6)


def test_values() -> None:
    torch.manual_seed(0)
    model, x, y = tb.to_bayesian(nn.Linear(4, 1)), torch.randn(50, 4), torch.randn(50, 1)
    pred = tb.predict(model, x, 50, likelihood=tb.Gaussian(noise=0.5), progress=False)
    error = torchmetrics.MeanSquaredError(squared=False)
    assert error(pred.mean, y).item() == pytest.approx(pred.summary(y).rmse, rel=1e-6)
