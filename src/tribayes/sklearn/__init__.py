"""scikit-learn's estimators: `fit`, `predict`, and how sure it is. Needs `pip install 'tribayes[sklearn]'`."""

from tribayes.sklearn.classifier import TriBayesClassifier
from tribayes.sklearn.regressor import TriBayesRegressor

__all__ = ["TriBayesClassifier", "TriBayesRegressor"]
