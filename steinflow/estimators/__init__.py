"""scikit-learn estimators: Bayesian linear, logistic and neural regression with `fit` and `predict`, no JAX in sight.

Scaling is done inside. Predictions average over the particles in NumPy and float64, so that a fitted estimator does not
compile anything and pickles as arrays.
"""

try:
    import sklearn  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "sklearn":
        raise
    raise ModuleNotFoundError(
        "The estimators need scikit-learn: pip install 'steinflow[sklearn]'.", name="sklearn"
    ) from error

from steinflow.estimators.base import SteinEstimator, Watch
from steinflow.estimators.classifier import SteinClassifier
from steinflow.estimators.regressor import SteinPoissonRegressor, SteinRegressor

__all__ = ["SteinClassifier", "SteinEstimator", "SteinPoissonRegressor", "SteinRegressor", "Watch"]
