"""Regression by scikit-learn's rules."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from tribayes.sklearn.base import TableEstimator, framed
from tribayes.tables import fit_table

BOUNDS = ("lower", "upper")


class TriBayesRegressor(RegressorMixin, TableEstimator):
    """A Bayesian network that predicts values, their spread, and intervals that hold.

    Inputs and targets are standardised inside; several targets may be learned at once. A fifth of the rows (39 to
    1,999) is kept aside for `predict_interval`, which by that holds its level whatever the data
    (`tribayes.conformalise`); by a fifth of the others the weight of the divergence and the widths are chosen, and then
    all but those kept aside train the network (docs/tables.md). With fewer than 120 rows none is held out, and a
    warning says so.

    Args:
        network: makes it from the numbers of inputs and outputs; default, one hidden layer of 50 ReLUs. Pass a
            function, and not a lambda, if the estimator shall be pickled.
        kl_weight: "choose" between "auto" and 1 by held-out rows; or what `tribayes.ELBO` takes, "auto" or a number.
        calibrate: False trains on all rows, and leaves spread and intervals to the posterior: on small tables they hold
            too little.
        steps: of training, twice to choose and once more.
        batch_size: rows per step.
        learning_rate, weight_decay: of AdamW; the rate falls to 0 along half a cosine.
        samples: networks drawn for each prediction, always the same ones.
        device: to train and predict on, such as "cuda".
        random_state: a seed makes fits repeatable; predictions of a fitted estimator always are.

    Attributes:
        fitted_: the network, its scaling and what was chosen: `fitted_.kl_weight`, `fitted_.trials`, `fitted_.model`.

    Example:
        >>> x = torch.randn(200, 3).numpy()
        >>> estimator = TriBayesRegressor(steps=50, random_state=0).fit(x, x.sum(1))
        >>> mean, std = estimator.predict(x[:4], return_std=True)
        >>> estimator.predict_interval(x[:4], level=0.9).shape, mean.shape, std.shape
        ((4, 2), (4,), (4,))
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from a table (N, d) and its targets, (N,) or (N, D)."""
        recipe = self._recipe()
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2)
        self._flat = y.ndim == 1
        targets = torch.tensor(np.asarray(y, dtype=np.float64), device="cpu")
        self.fitted_ = fit_table(torch.tensor(X, device="cpu"), targets, recipe=recipe, seed=self._seed())
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean, (N,) or (N, D); with `return_std` also the standard deviation of a new observation."""
        rows = self._rows(X)
        mean, std = (self._shaped(values.numpy()) for values in self.fitted_.mean_and_std(rows))
        return (mean, std) if return_std else mean

    def predict_interval(self, X: Any, level: float = 0.95) -> Any:
        """Lower and upper bounds of a new observation: (N, 2), of several targets (N, D, 2); a table if X is one.

        They hold the truth of a new row with probability `level`, on average over rows and over fits; of several
        targets they hold all at once. With `calibrate=False` they are the posterior's own.
        """
        rows = self._rows(X)
        bounds = torch.stack(self.fitted_.intervals(rows, level), dim=-1).numpy()
        if self._flat:
            return framed(bounds[:, 0], X, BOUNDS)
        return framed(bounds, X, (range(bounds.shape[1]), BOUNDS))

    def _shaped(self, values: Any) -> Any:
        return values[:, 0] if self._flat else values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
