"""Where torch's default device is another, as after `torch.set_default_device("cuda")`, nothing else comes out.

"meta" stands in for a GPU here: whatever was made there by accident has no numbers, so it cannot go unnoticed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tribayes as tb
from tests.libraries import library

X = torch.randn(130, 3, generator=torch.Generator().manual_seed(0))
Y, VALUES = torch.arange(130) % 2, X.sum(1, keepdim=True)
RECIPE = tb.tables.Recipe(steps=2, samples=3, kl_weights=(1.0,))


def classifier() -> nn.Module:
    """On the CPU: where a network lies is its owner's choice."""
    with torch.device("cpu"):
        return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


NET = classifier()
MODEL = tb.to_bayesian(copy.deepcopy(NET), tau=0.3, generator=0).eval()
LINE = tb.to_bayesian(nn.Linear(3, 1), generator=0)
CATEGORICAL, GAUSSIAN = tb.Categorical(), tb.Gaussian(0.3)


def ask(samples: Any = 6, **options: Any) -> Any:
    return tb.predict(MODEL, X, samples, CATEGORICAL, progress=False, **options)


def values() -> Any:
    return tb.predict(LINE, X, 6, GAUSSIAN, progress=False)


def trained(**options: Any) -> list[float]:
    model = tb.to_bayesian(copy.deepcopy(NET), generator=0)
    elbo = tb.ELBO(CATEGORICAL, data_size=130, **options)
    optimizer = torch.optim.SGD(tb.parameter_groups(model, lr=0.01))
    return tb.fit(model, elbo, [(X, Y)], optimizer, epochs=2, generator=1, progress=False).loss


def run() -> dict[str, Tensor]:
    model = tb.to_bayesian(copy.deepcopy(NET), generator=0)
    elbo, optimizer = tb.ELBO(CATEGORICAL, data_size=130), torch.optim.SGD(tb.parameter_groups(model, lr=0.01))
    with TemporaryDirectory() as folder:
        made = tb.runs.Run.at(Path(folder) / "run")
        made.train(model, elbo, optimizer, train=(X, Y), iterations=15, batch_size=50, progress=False)
        return made.load_model(lambda: tb.to_bayesian(classifier())).state_dict()


def saved_and_loaded() -> dict[str, Tensor]:
    with TemporaryDirectory() as folder:
        tb.save(MODEL, Path(folder) / "m", likelihood=CATEGORICAL)
        return tb.load(Path(folder) / "m", classifier()).state_dict()


def table(targets: Tensor) -> Any:
    return tb.tables.fit_table(X, targets, recipe=RECIPE).predict(X[:5])


def estimator(name: str, targets: Any) -> Any:
    library("sklearn")
    kind = getattr(__import__("tribayes.sklearn", fromlist=[name]), name)
    return kind(steps=2, samples=3, random_state=0).fit(X.numpy(), targets).predict(X.numpy()[:5])


JOBS: dict[str, Callable[[], Any]] = {
    "a model": lambda: MODEL.kl(),
    "a conversion": lambda: tb.to_bayesian(NET, generator=0).sample_weights(2, generator=1),
    "a training": trained,
    "a training by one pass": lambda: trained(estimator="local"),
    "a run": run,
    "a file": saved_and_loaded,
    "samples": lambda: ask().samples,
    "no samples": lambda: ask(keep_samples=False).interval(0.95),
    "as many as it takes": lambda: ask(tb.AutoSamples(first=4, cap=8)).certain(0.9),
    "moments": lambda: ask(tb.Moments(8)).mean,
    "parts": lambda: tb.Predictive.merge([ask(range(3, 6)), ask(range(3))]).samples,
    "an ensemble": lambda: tb.Ensemble(MODEL, 5).predict(X).mean,
    "a summary": lambda: ask().summary(Y),
    "a summary of values": lambda: values().summary(VALUES),
    "intervals": lambda: (values().interval(0.9), values().observation_interval(0.9)),
    "the error of sampling": lambda: ask().monte_carlo_error(),
    "reliability": lambda: tb.metrics.reliability(ask().mean, Y),
    "risk": lambda: tb.metrics.risk_coverage(ask().entropy, ask().label != Y),
    "foreign inputs": lambda: tb.metrics.out_of_distribution_auroc(ask().entropy, ask().entropy * 1.1),
    "conformal sets": lambda: tb.conformalise(ask(), Y).sets(ask(), 0.9),
    "a report on layers": lambda: tb.layer_report(MODEL, X, 3, likelihood=CATEGORICAL),
    "a table of values": lambda: table(VALUES).mean,
    "a table of classes": lambda: table(Y).mean,
    "the digits": lambda: tb.data.load("digits").train_images,
    "a classifier of rows": lambda: estimator("TriBayesClassifier", Y.numpy()),
    "a regressor of rows": lambda: estimator("TriBayesRegressor", np.asarray(VALUES[:, 0])),
}


@pytest.mark.parametrize("name", JOBS)
def test_the_default_device_changes_nothing(name: str) -> None:
    expected = JOBS[name]()
    with torch.device("meta"):
        found = JOBS[name]()
    torch.set_printoptions(precision=8)
    try:
        assert repr(found) == repr(expected)
    finally:
        torch.set_printoptions(profile="default")
