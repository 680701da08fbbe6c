"""scikit-learn's estimators: `fit`, `predict`, and how sure it is. Needs `pip install 'tribayes[sklearn]'`."""

try:
    import sklearn  # noqa: F401 - only to say clearly that it is missing
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "tribayes.sklearn has estimators for scikit-learn, which is not installed; "
        "install it with: pip install 'tribayes[sklearn]'",
        name=error.name,
    ) from error

from tribayes.sklearn.classifier import TriBayesClassifier
from tribayes.sklearn.regressor import TriBayesRegressor

__all__ = ["TriBayesClassifier", "TriBayesRegressor"]
