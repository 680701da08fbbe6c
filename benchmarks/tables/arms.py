"""Who takes part. Each arm tries two settings on a held-out fifth of its rows, and learns again with the better one.

Ours does so inside `fit`. The others get two learning rates each: their libraries' default and a third of it, with as
many trees as the default has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import log_loss, mean_pinball_loss, mean_squared_error

from benchmarks import peers
from benchmarks.tables.answers import Answers, Classes, Nothing, Values
from benchmarks.tables.cases import Rows
from tribayes.sklearn import TriBayesClassifier, TriBayesRegressor

LEVEL = 0.95
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
RATES, NATURAL_RATES = (0.1, 0.03), (0.01, 0.003)  # of scikit-learn's boosting, and of NGBoost

OURS, POSTERIOR = "**tribayes**", "tribayes, the posterior's own interval"
QUANTILES, BOOSTING = "boosting, quantile loss", "boosting"
MAPIE, NGBOOST = "boosting and MAPIE", "NGBoost"

Found = dict[str, tuple[Answers, dict[str, Any]]]  # arm → what it says, and what it chose


def best(
    candidates: Sequence[Any], make: Callable[[Any], Any], judge: Callable[..., float], rows: Rows, seed: int
) -> Any:
    """The setting whose estimator, learned without a random fifth of the rows, has the least loss there."""
    held, rest = rows.parted(1000 + seed)
    losses = [judge(held.targets, make(one).fit(rest.inputs, rest.targets), held.inputs) for one in candidates]
    return candidates[int(np.argmin(losses))]


def regression(rows: Rows, test: Rows, seed: int, **options: Any) -> Found:
    """What every arm says about the test rows' values."""
    ours = TriBayesRegressor(random_state=seed, **options).fit(rows.inputs, rows.targets)
    return (
        _our_values(ours, test)
        | _quantiles(rows, test, seed)
        | _mapie_values(rows, test, seed)
        | _natural(rows, test, seed)
    )


def classification(rows: Rows, test: Rows, seed: int, **options: Any) -> Found:
    """What every arm says about the test rows' classes."""
    ours = TriBayesClassifier(random_state=seed, **options).fit(rows.inputs, rows.targets)
    answer = Classes(ours.predict_proba(test.inputs), ours.predict_set(test.inputs, LEVEL))
    make = partial(_booster, HistGradientBoostingClassifier, seed)
    rate = best(RATES, make, _log_loss, rows, seed)
    plain = make(rate).fit(rows.inputs, rows.targets)
    found: Found = {OURS: (answer, {"kl_weight": ours.fitted_.kl_weight})}
    found[BOOSTING] = Classes(plain.predict_proba(test.inputs)), {"rate": rate}
    return found | _mapie_classes(rows, test, seed) | _natural(rows, test, seed, classes=True)


def _our_values(ours: TriBayesRegressor, test: Rows) -> Found:
    import torch

    inputs, targets = torch.tensor(test.inputs), torch.tensor(test.targets)
    fitted = ours.fitted_
    density = fitted.log_density(inputs, targets).numpy()
    mean, chosen = ours.predict(test.inputs), {"kl_weight": fitted.kl_weight}
    assert fitted.targets is not None
    bounds = (fitted.targets.back(bound) for bound in fitted.predict(inputs).observation_interval(LEVEL))
    own = torch.cat(list(bounds), dim=-1).numpy()
    return {
        OURS: (Values(mean, ours.predict_interval(test.inputs, LEVEL), density), chosen),
        POSTERIOR: (Values(mean, own, density), chosen),
    }


def _booster(kind: Any, seed: int, rate: float, **options: Any) -> Any:
    return kind(learning_rate=rate, random_state=seed, early_stopping=False, **options)


def _quantiles(rows: Rows, test: Rows, seed: int) -> Found:
    """Three boosters: the mean, and one quantile each for the ends of the interval."""
    make = partial(_booster, HistGradientBoostingRegressor, seed)
    mean_rate = best(RATES, make, _squares, rows, seed)
    bounds, rates = [], []
    for tail in TAILS:
        one = partial(make, loss="quantile", quantile=tail)
        rates.append(best(RATES, one, partial(_pinball, tail), rows, seed))
        bounds.append(one(rates[-1]).fit(rows.inputs, rows.targets).predict(test.inputs))
    mean = make(mean_rate).fit(rows.inputs, rows.targets).predict(test.inputs)
    interval = np.sort(np.stack(bounds, axis=1), axis=1)  # they may cross
    return {QUANTILES: (Values(mean, interval), {"rates": [mean_rate, *rates]})}


def _mapie_values(rows: Rows, test: Rows, seed: int) -> Found:
    """Split conformal prediction around a booster; a fifth of the rows is for MAPIE alone."""
    if not installed("mapie"):
        return {}
    from mapie.regression import SplitConformalRegressor

    held, rest = rows.parted(2000 + seed)
    make = partial(_booster, HistGradientBoostingRegressor, seed)
    rate = best(RATES, make, _squares, rest, seed)
    booster = make(rate).fit(rest.inputs, rest.targets)
    conformal = SplitConformalRegressor(booster, confidence_level=LEVEL, prefit=True)
    conformal.conformalize(held.inputs, held.targets)
    mean, bounds = conformal.predict_interval(test.inputs)
    return {MAPIE: (Values(mean, bounds[:, :, 0]), {"rate": rate})}


def _mapie_classes(rows: Rows, test: Rows, seed: int) -> Found:
    if not installed("mapie"):
        return {}
    from mapie.classification import SplitConformalClassifier

    held, rest = rows.parted(2000 + seed)
    make = partial(_booster, HistGradientBoostingClassifier, seed)
    rate = best(RATES, make, _log_loss, rest, seed)
    booster = make(rate).fit(rest.inputs, rest.targets)
    conformal = SplitConformalClassifier(booster, confidence_level=LEVEL, prefit=True, random_state=seed)
    conformal.conformalize(held.inputs, held.targets)
    _, sets = conformal.predict_set(test.inputs)
    return {MAPIE: (Classes(booster.predict_proba(test.inputs), sets[:, :, 0].astype(bool)), {"rate": rate})}


def _natural(rows: Rows, test: Rows, seed: int, classes: bool = False) -> Found:
    if not installed("ngboost"):
        return {}
    from benchmarks.peers import ngboost

    learn = partial(ngboost.fitted, seed=seed, classes=int(rows.targets.max()) + 1 if classes else 0)
    held, rest = rows.parted(1000 + seed)
    judge, losses = _log_loss if classes else ngboost.negative_log_density, {}
    for rate in NATURAL_RATES:
        tried = learn(rate, inputs=rest.inputs, targets=rest.targets)
        losses[rate] = math.inf if tried is None else judge(held.targets, tried, held.inputs)
    for rate in sorted(losses, key=losses.__getitem__):
        if (learned := learn(rate, inputs=rows.inputs, targets=rows.targets)) is not None:
            break
    else:
        return {NGBOOST: (Nothing(), {})}
    if classes:
        return {NGBOOST: (Classes(learned.predict_proba(test.inputs)), {"rate": rate})}
    said = ngboost.normal(learned, test.inputs)
    interval = np.stack([said.ppf(tail) for tail in TAILS], axis=1)
    return {NGBOOST: (Values(said.mean(), interval, said.logpdf(test.targets)), {"rate": rate})}


def installed(package: str) -> bool:
    """Whether a peer is there; without it its rows are left out, and the page says so."""
    try:
        peers.find(package)
    except peers.NotInstalled:
        return False
    return True


def _squares(truth: Any, estimator: Any, inputs: Any) -> float:
    return float(mean_squared_error(truth, estimator.predict(inputs)))


def _pinball(tail: float, truth: Any, estimator: Any, inputs: Any) -> float:
    return float(mean_pinball_loss(truth, estimator.predict(inputs), alpha=tail))


def _log_loss(truth: Any, estimator: Any, inputs: Any) -> float:
    said = estimator.predict_proba(inputs)
    return float(log_loss(truth, said, labels=np.arange(said.shape[1])))
