"""A Bayesian network in a scikit-learn pipeline: disease progression of 442 people, with intervals that hold.

Embedded data, seconds. Run it with `python examples/sklearn_pipeline.py`; needs `pip install '.[sklearn]' pandas`.
"""

# %%
from __future__ import annotations

import torch
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer

from tribayes.sklearn import TriBayesRegressor


def main(steps: int = 2000) -> None:
    torch.set_num_threads(1)  # so small a network gains nothing from a second thread
    x, y = load_diabetes(return_X_y=True, as_frame=True)
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.2, random_state=0)
    scaling = QuantileTransformer(n_quantiles=50, output_distribution="normal").set_output(transform="pandas")
    pipeline = make_pipeline(scaling, TriBayesRegressor(steps=steps, random_state=0))
    pipeline.fit(x_train, y_train)
    print(f"R² of {len(y_test)} people who were not learned from: {pipeline.score(x_test, y_test):.2f}")

    regressor, new = pipeline[-1], pipeline[:-1].transform(x_test)
    intervals = regressor.predict_interval(new, level=0.9)  # a table, as `new` is one
    held = (intervals["lower"] <= y_test) & (y_test <= intervals["upper"])
    print(f"90 % intervals hold {held.mean():.0%} of them, {(intervals['upper'] - intervals['lower']).mean():.0f} wide")
    intervals["mean"], intervals["std"] = regressor.predict(new, return_std=True)
    print(intervals.assign(truth=y_test).head().round(0))
    print(f"kl_weight {regressor.fitted_.kl_weight:g}; tried, with their NLL: {regressor.fitted_.trials}")


if __name__ == "__main__":
    main()
