"""Estimators by scikit-learn's rules: its own checks, and what people do with estimators."""

from __future__ import annotations

import io
import pickle
from functools import partial
from typing import Any

import joblib
import numpy as np
import pandas
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

import tribayes as tb
from tribayes.sklearn import TriBayesClassifier, TriBayesRegressor
from tribayes.tables import multilayer_perceptron

FAST: dict[str, Any] = {"steps": 40, "samples": 5, "random_state": 0}
FEW = "ignore:.*rows are too few to hold some out:UserWarning"  # the checks have small tables


@pytest.mark.filterwarnings(FEW)
@pytest.mark.filterwarnings("ignore:.*SCIPY_ARRAY_API")
@parametrize_with_checks([TriBayesRegressor(steps=20, samples=2), TriBayesClassifier(steps=20, samples=2)])
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def table() -> tuple[Any, Any]:
    random = np.random.RandomState(0)
    x = random.randn(240, 3)
    return x, 5 * x[:, 0] - x[:, 1] + random.randn(240)


@pytest.fixture(scope="module")
def regressor(table: tuple[Any, Any]) -> TriBayesRegressor:
    return TriBayesRegressor(**FAST).fit(*table)


@pytest.fixture(scope="module")
def classifier(table: tuple[Any, Any]) -> TriBayesClassifier:
    x, y = table
    return TriBayesClassifier(**FAST).fit(x, np.where(y > 2, "high", np.where(y < -2, "low", "middle")))


def test_it_is_reached_on_demand() -> None:
    assert tb.sklearn.TriBayesRegressor is TriBayesRegressor


def test_values_have_a_spread_and_an_interval(table: tuple[Any, Any], regressor: TriBayesRegressor) -> None:
    x, _ = table
    mean, std = regressor.predict(x, return_std=True)
    np.testing.assert_array_equal(mean, regressor.predict(x))
    own_mean, own_std = regressor.fitted_.mean_and_std(torch.tensor(x))
    np.testing.assert_array_equal(np.stack([mean, std]), torch.cat([own_mean, own_std], 1).T.numpy())
    bounds = regressor.predict_interval(x, 0.9)
    assert bounds.shape == (240, 2)
    np.testing.assert_allclose(bounds.mean(1), mean)  # a conformal interval is about the mean
    assert (np.diff(regressor.predict_interval(x, 0.95)) > np.diff(bounds)).all()


def test_intervals_hold_new_rows(regressor: TriBayesRegressor) -> None:
    # by 59 rows kept aside: coverage is a beta law about 0.95, below 0.8 in 1 fit of 30,000; the seeds are fixed
    random = np.random.RandomState(1)
    x = random.randn(2000, 3)
    y = 5 * x[:, 0] - x[:, 1] + random.randn(2000)
    lower, upper = regressor.predict_interval(x).T
    assert 0.8 < np.mean((lower <= y) & (y <= upper)) < 1


def test_without_calibration_the_posterior_answers(table: tuple[Any, Any]) -> None:
    x, y = table
    plain = TriBayesRegressor(**FAST, calibrate=False, kl_weight=0.5).fit(x, y)
    assert (plain.fitted_.conformal, plain.fitted_.kl_weight, plain.fitted_.rows) == (None, 0.5, 240)
    expected = torch.cat(plain.fitted_.intervals(torch.tensor(x[:3])), 1)
    np.testing.assert_array_equal(plain.predict_interval(x[:3]), expected.numpy())


def test_several_targets(table: tuple[Any, Any]) -> None:
    x, y = table
    both = TriBayesRegressor(**FAST).fit(x, np.stack([y, 100 - y], 1))
    frame = pandas.DataFrame(x[:4])
    assert both.predict(x[:4]).shape == both.predict(x[:4], return_std=True)[1].shape == (4, 2)
    bounds = both.predict_interval(x[:4])
    assert bounds.shape == (4, 2, 2)
    named = both.predict_interval(frame)
    np.testing.assert_array_equal(named[(1, "upper")], bounds[:, 1, 1])


@pytest.mark.parametrize("kind", [str, bool, "category"])
def test_classes_of_any_type(table: tuple[Any, Any], kind: Any) -> None:
    x, y = table
    truth = pandas.Series(y > 0 if kind is bool else np.where(y > 0, "yes", "no")).astype(kind)
    found = TriBayesClassifier(**FAST).fit(x, truth)
    assert set(found.predict(x)) <= set(truth)
    assert found.score(x, truth) > 0.8
    np.testing.assert_array_equal(found.predict(x), found.classes_[found.predict_proba(x).argmax(1)])


def test_classes_are_known_by_probability_interval_and_set(
    table: tuple[Any, Any], classifier: TriBayesClassifier
) -> None:
    x, _ = table
    shares, bounds, sets = (
        ask(x) for ask in (classifier.predict_proba, classifier.predict_interval, classifier.predict_set)
    )
    assert bounds.shape == (240, 3, 2)
    assert (bounds[:, :, 0] <= bounds[:, :, 1]).all()
    assert sets[np.arange(240), shares.argmax(1)].all()
    pred = classifier.fitted_.predict(torch.tensor(x))
    np.testing.assert_array_equal(classifier.certain(x, 0.9), pred.certain(0.9).numpy())


def test_pandas_in_and_out(table: tuple[Any, Any], classifier: TriBayesClassifier) -> None:
    x, y = table
    frame = pandas.DataFrame(x, columns=["a", "b", "c"], index=[f"row {i}" for i in range(240)])
    found = TriBayesRegressor(**FAST).fit(frame, pandas.Series(y, index=frame.index))
    assert list(found.feature_names_in_) == ["a", "b", "c"]
    bounds = found.predict_interval(frame[3:6])
    assert list(bounds.columns) == ["lower", "upper"]
    assert list(bounds.index) == ["row 3", "row 4", "row 5"]
    with pytest.raises(ValueError, match=r"[Ff]eature names"):
        found.predict(frame[["b", "a", "c"]])
    plain = pandas.DataFrame(x[:2])
    assert list(classifier.predict_set(plain).columns) == ["high", "low", "middle"]
    assert classifier.predict_interval(plain).columns.tolist()[0] == ("high", "lower")


def test_random_state_decides(table: tuple[Any, Any], regressor: TriBayesRegressor) -> None:
    x, y = table
    again, other = (TriBayesRegressor(**FAST | {"random_state": seed}).fit(x, y) for seed in (0, 1))
    np.testing.assert_array_equal(again.predict(x), regressor.predict(x))
    assert not np.array_equal(other.predict(x), regressor.predict(x))


def test_it_is_cloned_pickled_and_dumped(table: tuple[Any, Any], regressor: TriBayesRegressor) -> None:
    x, _ = table
    assert not hasattr(clone(regressor), "fitted_")
    assert clone(regressor).get_params() == regressor.get_params()
    file = io.BytesIO()
    joblib.dump(regressor, file)
    file.seek(0)
    for kept in (pickle.loads(pickle.dumps(regressor)), joblib.load(file)):
        np.testing.assert_array_equal(kept.predict_interval(x), regressor.predict_interval(x))


def test_it_is_searched_and_validated_in_a_pipeline(table: tuple[Any, Any]) -> None:
    x, y = table
    chain = make_pipeline(MinMaxScaler(), TriBayesRegressor(**FAST, kl_weight=1.0, calibrate=False))
    alone, shared = (cross_val_score(chain, x, y, cv=2, n_jobs=jobs) for jobs in (1, 2))
    np.testing.assert_allclose(shared, alone)  # in processes of their own
    grid = {"tribayesregressor__batch_size": np.array([32, 64])}
    search = GridSearchCV(chain, grid, cv=2).fit(x, y)
    assert search.best_params_["tribayesregressor__batch_size"] in (32, 64)
    assert search.best_estimator_.predict(x, return_std=True)[1].shape == (240,)


def test_a_network_of_ones_own(table: tuple[Any, Any]) -> None:
    x, y = table
    found = TriBayesRegressor(partial(multilayer_perceptron, hidden=7), **FAST).fit(x, y)
    assert {tuple(p.shape) for p in found.fitted_.model.parameters()} >= {(7, 3), (1, 7)}
    with pytest.raises(TypeError, match=r"`network` .* must be a function of the numbers of inputs and outputs"):
        TriBayesRegressor(nn.Linear(3, 1), **FAST).fit(x, y)


@pytest.mark.parametrize(
    ("name", "value"),
    [("steps", 1.5), ("samples", True), ("batch_size", 0), ("learning_rate", "fast"), ("device", "gpu")],
)
def test_a_bad_parameter_is_named(table: tuple[Any, Any], name: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=f"`{name}` .* must"):
        TriBayesRegressor(**{name: value}).fit(*table)


def test_one_class_is_refused(table: tuple[Any, Any]) -> None:
    x, _ = table
    with pytest.raises(ValueError, match=r"`y` \(=\[3\]\) must have more than one class"):
        TriBayesClassifier(**FAST).fit(x, np.full(240, 3))
