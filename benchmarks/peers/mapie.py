"""MAPIE's split conformal prediction around what a network of ours said: intervals and sets, one per level.

MAPIE asks an estimator for predictions. Ours has them already, so the "inputs" that MAPIE is given hold them, and the
estimator only reads them off: both libraries start from the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from mapie.classification import SplitConformalClassifier
from mapie.conformity_scores import ResidualNormalisedScore
from mapie.regression import ConformalizedQuantileRegressor, SplitConformalRegressor
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.compose import make_column_transformer
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from torch import Tensor

Interval = tuple[Tensor, Tensor]  # (N,) each


class Column(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A regressor whose predictions are one column of its inputs."""

    def __init__(self, place: int = -1) -> None:
        self.place = place
        self.fitted_ = True

    def fit(self, inputs: Any, targets: Any) -> Column:
        del inputs, targets
        return self

    def predict(self, inputs: Any) -> Any:
        return np.asarray(inputs)[:, self.place]


class Probabilities(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # as above
    """A classifier whose inputs are the probabilities themselves."""

    def __init__(self, classes: int = 2) -> None:
        self.classes = classes
        self.classes_ = np.arange(classes)

    def fit(self, inputs: Any, targets: Any) -> Probabilities:
        del inputs, targets
        return self

    def predict_proba(self, inputs: Any) -> Any:
        return np.asarray(inputs)

    def predict(self, inputs: Any) -> Any:
        return self.predict_proba(inputs).argmax(-1)


def residual_intervals(
    held: Tensor, truth: Tensor, new: Tensor, levels: Sequence[float], *, normalised: bool = False, seed: int = 0
) -> dict[float, Interval]:
    """Intervals by absolute residuals, or by residuals relative to a regression of their logarithm.

    Args:
        held, new: (N, d + 1) inputs with the predicted mean as last column.
        truth: (N,) of the held-out examples.
        normalised: by a ridge regression on the inputs, which MAPIE fits on a quarter of the held-out examples (its
            default share). Its default regression, without a penalty, has more coefficients than a small set can give.
    """
    ridge = make_pipeline(make_column_transformer(("passthrough", slice(0, -1))), RidgeCV(np.logspace(-2, 4, 13)))
    score = ResidualNormalisedScore(ridge, random_state=seed) if normalised else "absolute"
    conformal = SplitConformalRegressor(Column(), confidence_level=list(levels), conformity_score=score)
    conformal.conformalize(_array(held), _array(truth))
    _, bounds = conformal.predict_interval(_array(new))
    return {level: (_tensor(bounds[:, 0, i]), _tensor(bounds[:, 1, i])) for i, level in enumerate(levels)}


def quantile_intervals(
    held: Mapping[float, Interval], truth: Tensor, new: Mapping[float, Interval]
) -> dict[float, Interval]:
    """Conformalised quantiles (Romano et al. 2019): given intervals are widened or narrowed by one number per level."""
    found = {}
    for level in held:
        columns = [Column(0), Column(1), Column(2)]  # lower, upper, and a middle that only predicts
        conformal = ConformalizedQuantileRegressor(columns, confidence_level=level, prefit=True)
        conformal.conformalize(_bounds(held[level]), _array(truth))
        _, bounds = conformal.predict_interval(_bounds(new[level]), symmetric_correction=True)
        found[level] = _tensor(bounds[:, 0, 0]), _tensor(bounds[:, 1, 0])
    return found


def class_sets(
    held: Tensor, truth: Tensor, new: Tensor, levels: Sequence[float], score: str, *, last: Any = True, seed: int = 0
) -> dict[float, Tensor]:
    """Sets (N, C) by "lac" or "aps" from probabilities; `last` is MAPIE's include_last_label, which "aps" knows."""
    options = {"conformity_score_params": {"include_last_label": last}} if score == "aps" else {}
    classes = Probabilities(held.shape[-1])
    levels = list(levels)
    conformal = SplitConformalClassifier(classes, confidence_level=levels, conformity_score=score, random_state=seed)
    conformal.conformalize(_shares(held), truth.numpy())
    _, sets = conformal.predict_set(_shares(new), **options)
    return {level: torch.from_numpy(sets[:, :, i]) for i, level in enumerate(levels)}


def _bounds(interval: Interval) -> Any:
    lower, upper = interval
    return _array(torch.stack([lower, upper, (lower + upper) / 2], dim=-1))


def _shares(probabilities: Tensor) -> Any:
    """In float64 and with the sum 1, which MAPIE checks."""
    exact = probabilities.double()
    return _array(exact / exact.sum(-1, keepdim=True))


def _array(values: Tensor) -> Any:
    return values.double().numpy()


def _tensor(values: Any) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values))
