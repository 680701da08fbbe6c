"""What classifier and regressor have in common: parameters, the way into torch, and the way back."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from tribayes._errors import check_rate
from tribayes.tables import FittedTable, Network, Recipe, multilayer_perceptron
from tribayes.tables.recipe import CANDIDATES

CHOOSE = "choose"


class TableEstimator(BaseEstimator):
    """A Bayesian network behind scikit-learn's parameters; `fitted_` is what `tribayes.tables.fit_table` made."""

    fitted_: FittedTable

    def __init__(
        self,
        network: Network | None = None,
        *,
        kl_weight: float | str = CHOOSE,
        calibrate: bool = True,
        steps: int = Recipe.steps,
        batch_size: int = Recipe.batch_size,
        learning_rate: float = Recipe.lr,
        weight_decay: float = Recipe.weight_decay,
        samples: int = Recipe.samples,
        device: str = Recipe.device,
        random_state: Any = None,
    ) -> None:
        self.network = network
        self.kl_weight = kl_weight
        self.calibrate = calibrate
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.samples = samples
        self.device = device
        self.random_state = random_state

    def _recipe(self) -> Recipe:
        """The parameters as they are now; grids bring NumPy's numbers."""
        check_rate("learning_rate", self.learning_rate, "pass e.g. 0.01")  # which a recipe calls lr
        return Recipe(
            network=multilayer_perceptron if self.network is None else self.network,
            kl_weights=CANDIDATES if self.kl_weight == CHOOSE else (self.kl_weight,),
            calibrate=bool(self.calibrate),
            steps=_whole(self.steps),
            batch_size=_whole(self.batch_size),
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            samples=_whole(self.samples),
            device=self.device,
        )

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _rows(self, X: Any) -> Tensor:
        """Rows to ask about, (N, d): as many columns as were learned, by the same names."""
        check_is_fitted(self)
        return torch.tensor(validate_data(self, X, reset=False, dtype=np.float64), device="cpu")


def _whole(value: Any) -> Any:
    """A whole number of any library as Python's; anything else as it is, to be refused by name."""
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value


def framed(values: Any, X: Any, columns: Any) -> Any:
    """An array, or, where X is a pandas table, a table with its rows' names and these columns.

    `columns` are names of the last axis, or of the last two in order: (outer, inner).
    """
    if not (hasattr(X, "columns") and hasattr(X, "iloc")):
        return values
    import pandas

    names = pandas.MultiIndex.from_product(columns) if values.ndim == 3 else list(columns)
    return pandas.DataFrame(values.reshape(len(values), -1), index=X.index, columns=names)
