"""Asking: the predictive distribution, credible intervals, decisions, calibration, metrics, diagnostics."""

from tribayes.prediction.calibration import Calibration, calibrate
from tribayes.prediction.conformal import Conformal, conformalise
from tribayes.prediction.diagnostics import LayerReport, ablate_correlation, layer_report
from tribayes.prediction.predict import predict
from tribayes.prediction.predictive import ClassPredictive, MonteCarloError, Predictive, RegressionPredictive
from tribayes.prediction.samples import AutoSamples, Moments
from tribayes.prediction.summary import ClassificationSummary, RegressionSummary

__all__ = [
    "AutoSamples",
    "Calibration",
    "ClassPredictive",
    "ClassificationSummary",
    "Conformal",
    "LayerReport",
    "Moments",
    "MonteCarloError",
    "Predictive",
    "RegressionPredictive",
    "RegressionSummary",
    "ablate_correlation",
    "calibrate",
    "conformalise",
    "layer_report",
    "predict",
]
