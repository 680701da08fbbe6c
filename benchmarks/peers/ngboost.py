"""NGBoost: natural gradient boosting of a normal law, or of class probabilities, with its defaults but for the rate."""

from __future__ import annotations

from typing import Any

from ngboost import NGBClassifier, NGBRegressor
from ngboost.distns import k_categorical
from scipy.stats import norm


def booster(rate: float, seed: int, classes: int = 0) -> Any:
    """An estimator to be fitted; `classes` 0 is regression."""
    options = {"learning_rate": rate, "random_state": seed, "verbose": False}
    return NGBClassifier(Dist=k_categorical(classes), **options) if classes else NGBRegressor(**options)


def fitted(rate: float, seed: int, classes: int, inputs: Any, targets: Any) -> Any:
    """A fitted estimator; None where its own gradients overflow, as they do once it is sure of every row's class."""
    try:
        return booster(rate, seed, classes).fit(inputs, targets)
    except ValueError as error:  # of the trees, which get these gradients as targets
        if "contains infinity" in str(error) or "contains NaN" in str(error):
            return None
        raise


def normal(learned: Any, inputs: Any) -> Any:
    """What it says about values: a frozen normal law of SciPy's, one for each row."""
    return norm(**learned.pred_dist(inputs).params)


def negative_log_density(truth: Any, learned: Any, inputs: Any) -> float:
    return -float(normal(learned, inputs).logpdf(truth).mean())
