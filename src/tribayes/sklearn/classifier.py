"""Classification by scikit-learn's rules."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from tribayes._errors import refusal
from tribayes.sklearn.base import TableEstimator, framed
from tribayes.sklearn.regressor import BOUNDS
from tribayes.tables import fit_table


class TriBayesClassifier(ClassifierMixin, TableEstimator):
    """A Bayesian network that predicts classes, how probable they are, and how sure that is.

    Everything is as in `TriBayesRegressor`, whose parameters these are; classes may be of any type.

    Attributes:
        classes_: the classes in order: that of the columns of `predict_proba` and `predict_set`.
        fitted_: the network, its scaling and what was chosen: `fitted_.kl_weight`, `fitted_.trials`, `fitted_.model`.

    Example:
        >>> x = torch.randn(200, 3).numpy()
        >>> words = ["no" if row[0] < 0 else "yes" for row in x]
        >>> estimator = TriBayesClassifier(steps=50, random_state=0).fit(x, words)
        >>> estimator.predict(x[:4]).shape, estimator.predict_proba(x[:4]).shape, estimator.predict_set(x[:4]).dtype
        ((4,), (4, 2), dtype('bool'))
    """

    classes_: Any

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from a table (N, d) and the class of each row, (N,)."""
        recipe = self._recipe()
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, places = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise refusal("y", self.classes_.tolist(), "have more than one class", "pass rows of at least two classes")
        count = len(self.classes_)
        self.fitted_ = fit_table(
            torch.tensor(X, device="cpu"),
            torch.tensor(places, device="cpu"),
            classes=count,
            recipe=recipe,
            seed=self._seed(),
        )
        return self

    def predict(self, X: Any) -> Any:
        """(N,): the most probable class of each row."""
        rows = self._rows(X)
        return self.classes_[self.fitted_.predict(rows).label.numpy()]

    def predict_proba(self, X: Any) -> Any:
        """(N, C): the probabilities, averaged over the sampled networks."""
        rows = self._rows(X)
        return self.fitted_.predict(rows).mean.numpy()

    def predict_interval(self, X: Any, level: float = 0.95) -> Any:
        """(N, C, 2): lower and upper bounds of each probability over the sampled networks; a table if X is one."""
        rows = self._rows(X)
        bounds = torch.stack(self.fitted_.predict(rows).interval(level), dim=-1).numpy()
        return framed(bounds, X, (self.classes_, BOUNDS))

    def predict_set(self, X: Any, level: float = 0.95) -> Any:
        """(N, C) bool: the classes that may be true; a table if X is one.

        The true class is among them with probability `level` at least. The label always is, so that a network that is
        right more often than the level has sets of one class, and holds more than it promises.
        """
        rows = self._rows(X)
        return framed(self.fitted_.sets(rows, level).numpy(), X, self.classes_)

    def certain(self, X: Any, level: float = 0.95) -> Any:
        """(N,) bool: whether the label's interval overlaps no other class's (`tribayes.ClassPredictive.certain`)."""
        rows = self._rows(X)
        return self.fitted_.predict(rows).certain(level).numpy()
