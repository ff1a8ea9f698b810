"""Bayesian regression of numbers and of counts with the interface of scikit-learn."""

import abc

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from steinflow.estimators.base import SteinEstimator, Watch, is_linear
from steinflow.estimators.mixtures import Mixture, Normals, Poissons
from steinflow.models.families import Family, Gaussian, Poisson
from steinflow.models.supervised import shift_and_scale


class _Regressor(RegressorMixin, SteinEstimator):
    """What regressions have in common: a predictive distribution on the line, for every row."""

    @abc.abstractmethod
    def _scaling(self, y) -> tuple[float, float]:
        """Return shift and scale of y."""

    @abc.abstractmethod
    def _distribution(self, outputs) -> Mixture:
        """Return the predictive distribution of every row, on the scale of the model, given outputs of one column."""

    def fit(self, X, y, *, watch: Watch | None = None):
        """Find the posterior given the rows of X and one number of y for each, and return the estimator itself.

        `watch` says what to see of the run while it is under way.

        Raises:
            ValueError: if X or y hold something else than finite numbers, or y does not suit the model.
        """
        X, y = self._checked(X, y, reset=True)
        return self._fit(X, y, self._scaling(y), watch)

    @available_if(is_linear)
    def partial_fit(self, X, y):
        """Continue with more rows: the posterior so far, as a Gaussian, is the prior.

        The first call sets the scaling.
        """
        if "result_" not in vars(self):
            return self.fit(X, y)
        return self._continue(*self._checked(X, y, reset=False))

    def predict(self, X, return_std=False):  # noqa: FBT002
        """Return the mean of y for every row, and with `return_std` its standard deviation, noise included."""
        mean, sd = self._predicted(lambda distribution: (distribution.mean, distribution.sd), X)
        mean, sd = mean * self.response_scale_ + self.response_shift_, sd * self.response_scale_
        return (mean, sd) if return_std else mean

    def predict_interval(self, X, level=0.9):
        """Return the lower and upper limits of the central predictive interval of every row.

        Args:
            X: one row per example.
            level: the probability that y lies inside.

        Raises:
            ValueError: if the level is not between 0 and 1.
        """
        if not 0 < level < 1:
            raise ValueError(f"level is a probability between 0 and 1, such as 0.9; got {level}.")
        tails = (1 - level) / 2, (1 + level) / 2
        limits = self._predicted(lambda distribution: [distribution.quantile(tail) for tail in tails], X)
        low, high = limits * self.response_scale_ + self.response_shift_
        return low, high

    def log_predictive(self, X, y):
        """Return the log density of y under the posterior predictive distribution, for every row."""
        [values] = self._predicted(lambda distribution, y: [distribution.log_density(y)], X, y)
        return values - np.log(self.response_scale_)

    def pit(self, X, y):
        """Return the probability integral transform of every row: where y lies in its predictive distribution.

        The values are uniform between 0 and 1 where the predictions are calibrated. For a count it is the middle of the
        jump of the distribution function.
        """
        [values] = self._predicted(lambda distribution, y: [distribution.position(y)], X, y)
        return values

    @property
    def coef_(self):
        """The posterior mean of the coefficients."""
        return self._weights @ self._coefficients()[1][..., 0]

    @property
    def intercept_(self):
        """The posterior mean of the intercept."""
        return float(self._weights @ self._coefficients()[0][:, 0])

    def coefficients(self):
        """Return mean, sd and quantiles of intercept and coefficients as a pandas DataFrame, by feature."""
        return self._coefficient_frame()

    def _predicted(self, function, X, *columns):
        """Return what a function says about the predictive distributions: some arrays with an entry per row."""
        columns = [self._encoded(column, X) for column in columns]
        return self._by_rows(
            lambda outputs, *block: np.transpose(function(self._distribution(outputs[..., 0]), *block)), X, *columns
        ).T

    def _encoded(self, y, X):
        y = np.asarray(column_or_1d(y), np.float64)
        check_consistent_length(X, y)
        return (y - self.response_shift_) / self.response_scale_

    def _checked(self, X, y, *, reset) -> tuple[np.ndarray, np.ndarray]:
        X, y = validate_data(self, X, y, reset=reset, dtype=np.float64, y_numeric=True)
        return np.asarray(X), np.asarray(y, np.float64)


class SteinRegressor(_Regressor):
    """Bayesian regression of numbers: linear, or a neural network.

    Features and y are standardised inside. The precision of the noise is inferred, with a Gamma prior, and so is that
    of the weights; with hidden layers the latter is chosen by cross-validation. Arguments and attributes are those of
    `steinflow.estimators.SteinEstimator`.

    Example:
        ```python
        from sklearn.datasets import load_diabetes
        import steinflow as sf

        X, y = load_diabetes(return_X_y=True)
        mean, sd = sf.SteinRegressor(random_state=0).fit(X, y).predict(X, return_std=True)
        ```
    """

    @property
    def _family(self) -> Family:
        return Gaussian()

    def _scaling(self, y):
        shift, scale = shift_and_scale(y)
        return float(shift), float(scale)

    def _distribution(self, outputs):
        return Normals(self._weights, outputs, np.exp(-0.5 * self._particles["log_gamma"])[:, None])


class SteinPoissonRegressor(_Regressor):
    """Bayesian regression of counts, Poisson with a logarithmic link: linear, or a neural network.

    Features are standardised inside; the precision of the weights is inferred, with a Gamma prior, or chosen by
    cross-validation with hidden layers. Coefficients are those of the logarithm of the mean. Arguments and attributes
    are those of `steinflow.estimators.SteinEstimator`.
    """

    @property
    def _family(self) -> Family:
        return Poisson()

    def _scaling(self, y):
        return 0.0, 1.0

    def _distribution(self, outputs):
        return Poissons(self._weights, np.exp(outputs))
