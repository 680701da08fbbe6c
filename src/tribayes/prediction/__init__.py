"""Asking: the predictive distribution, credible intervals, decisions, metrics, diagnostics."""

from tribayes.prediction.diagnostics import LayerReport, ablate_correlation, layer_report
from tribayes.prediction.predict import predict
from tribayes.prediction.predictive import ClassPredictive, MonteCarloError, Predictive, RegressionPredictive
from tribayes.prediction.samples import AutoSamples, Moments
from tribayes.prediction.summary import ClassificationSummary, RegressionSummary

__all__ = [
    "AutoSamples",
    "ClassPredictive",
    "ClassificationSummary",
    "LayerReport",
    "Moments",
    "MonteCarloError",
    "Predictive",
    "RegressionPredictive",
    "RegressionSummary",
    "ablate_correlation",
    "layer_report",
    "predict",
]
