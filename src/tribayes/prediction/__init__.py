"""Asking: the predictive distribution, credible intervals, decisions, calibration, metrics, diagnostics."""

from tribayes.nn.calling import Whole
from tribayes.prediction.calibration import Calibration, calibrate
from tribayes.prediction.conformal import Conformal, conformalise
from tribayes.prediction.diagnostics import LayerReport, ablate_correlation, layer_report
from tribayes.prediction.ensemble import Ensemble
from tribayes.prediction.model_card import model_card
from tribayes.prediction.predict import predict
from tribayes.prediction.predictive import ClassPredictive, LabelPredictive, RegressionPredictive
from tribayes.prediction.predictive_base import MonteCarloError, Predictive
from tribayes.prediction.samples import AutoSamples, Moments
from tribayes.prediction.saving import facts_of, load, save
from tribayes.prediction.summary import ClassificationSummary, RegressionSummary

__all__ = [
    "AutoSamples",
    "Calibration",
    "ClassPredictive",
    "ClassificationSummary",
    "Conformal",
    "Ensemble",
    "LabelPredictive",
    "LayerReport",
    "Moments",
    "MonteCarloError",
    "Predictive",
    "RegressionPredictive",
    "RegressionSummary",
    "Whole",
    "ablate_correlation",
    "calibrate",
    "conformalise",
    "facts_of",
    "layer_report",
    "load",
    "model_card",
    "predict",
    "save",
]
