"""Bayesian regression of numbers and of counts with the interface of scikit-learn."""

import abc
from typing import Literal

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length, column_or_1d

from steinflow.estimators.base import SteinEstimator, Watch, is_linear
from steinflow.estimators.mixtures import Mixture
from steinflow.estimators.rows import checked_data
from steinflow.methods.base import Method
from steinflow.models.families import Gaussian, Poisson
from steinflow.models.heads import Head, VaryingGaussian, VaryingStudentT
from steinflow.models.neural_network import USUAL_SCALE
from steinflow.models.supervised import shift_and_scale
from steinflow.models.uncertainty import Uncertainty

_NOISES = {
    "constant": Head(Gaussian()),
    "varying": VaryingGaussian(),
    "heavy-tailed": VaryingStudentT(),
}


class _Regressor(RegressorMixin, SteinEstimator):
    """What regressions have in common: a predictive distribution on the line, for every row."""

    @abc.abstractmethod
    def _scaling(self, y) -> tuple[float, float]:
        """Return shift and scale of y."""

    def fit(self, X, y, *, watch: Watch | None = None):
        """Find the posterior given the rows of X and one number of y for each, and return the estimator itself.

        `watch` says what to show and record during the run.

        Raises:
            ValueError: if X or y cannot be used, for example because values are missing, or if y does not suit the
                model.
        """
        return self._fit(X, y, watch)

    @available_if(is_linear)
    def partial_fit(self, X, y):
        """Continue with more rows: the posterior so far, as a Gaussian, becomes the prior.

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

    def uncertainty(self, X) -> Uncertainty:
        """Return the mean of y for every row, and its standard deviation split into parts.

        `epistemic` measures how much the particles disagree; more data would remove it. `aleatoric` is the noise on
        which they agree. The squares of both add up to the square of `total`.
        """
        shift, scale = self.response_shift_, self.response_scale_
        mean, *sds = self._predicted(lambda found: (found.mean, found.epistemic_sd, found.aleatoric_sd, found.sd), X)
        return Uncertainty(mean * scale + shift, *(sd * scale for sd in sds))

    def predict_quantiles(self, X, levels=(0.05, 0.25, 0.5, 0.75, 0.95)):
        """Return quantiles of y for every row, a column for each level.

        Raises:
            ValueError: if a level is not between 0 and 1.
        """
        if not all(0 < level < 1 for level in levels):
            raise ValueError(f"levels must be probabilities between 0 and 1, such as (0.05, 0.5, 0.95); got {levels}.")
        quantiles = self._predicted(lambda distribution: [distribution.quantile(level) for level in levels], X)
        return quantiles.T * self.response_scale_ + self.response_shift_

    def predict_interval(self, X, level=0.9):
        """Return the lower and upper limits of the central predictive interval of every row.

        Args:
            X: one row per example.
            level: the probability that y lies inside.

        Raises:
            ValueError: if the level is not between 0 and 1.
        """
        if not 0 < level < 1:
            raise ValueError(f"level must be a probability between 0 and 1, such as 0.9; got {level}.")
        low, high = self.predict_quantiles(X, ((1 - level) / 2, (1 + level) / 2)).T
        return low, high

    def sample_y(self, X, random_state=0):
        """Draw a y for every particle and every row from the posterior predictive distribution, particles x rows.

        Args:
            X: one row per example.
            random_state: an int or a NumPy generator.
        """
        rng = np.random.default_rng(random_state)
        drawn = self._by_rows(lambda forms: self._mixture(forms).sample(rng).T, X).T
        return drawn * self.response_scale_ + self.response_shift_

    def log_predictive(self, X, y):
        """Return the log density of y under the posterior predictive distribution, for every row."""
        [values] = self._predicted(lambda distribution, y: [distribution.log_density(y)], X, y)
        return values - np.log(self.response_scale_)

    def pit(self, X, y):
        """Return the probability integral transform of every row: where y lies in its predictive distribution.

        If the predictions are calibrated, the values are uniform between 0 and 1. For a count, the value is the middle
        of the jump of the distribution function.
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
        return self._by_rows(lambda forms, *block: np.transpose(function(self._mixture(forms), *block)), X, *columns).T

    def _mixture(self, forms) -> Mixture:
        """Return the predictive distribution of every row, on the scale of the model."""
        return Mixture(self._weights, self._head.family, forms)

    def _encoded(self, y, X):
        y = np.asarray(column_or_1d(y), np.float64)
        check_consistent_length(X, y)
        return (y - self.response_shift_) / self.response_scale_

    def _prepared(self, X, y):
        X, y = self._checked(X, y, reset=True)
        return self._scaled(X, y, self._scaling(y))

    def _checked(self, X, y, *, reset) -> tuple[np.ndarray, np.ndarray]:
        X, y = checked_data(self, X, y, reset=reset, y_numeric=True)
        return np.asarray(X), np.asarray(y, np.float64)


class SteinRegressor(_Regressor):
    """Bayesian regression of numbers: linear, or a neural network.

    Features and y are standardised inside. Further arguments and attributes are those of
    `steinflow.estimators.SteinEstimator`.

    Args:
        noise: "constant": normal, with one precision for all rows, inferred with a Gamma prior. "varying": normal, with
            a scale that depends on the features, as the mean does. "heavy-tailed": like "varying", but Student's t with
            4 degrees of freedom, for outliers. The default is "varying" with hidden layers and "constant" without.

    Example:
        ```python
        from sklearn.datasets import load_diabetes
        import steinflow as sf

        X, y = load_diabetes(return_X_y=True)
        mean, sd = sf.SteinRegressor(random_state=0).fit(X, y).predict(X, return_std=True)
        ```
    """

    def __init__(
        self,
        *,
        noise: Literal["constant", "varying", "heavy-tailed"] | None = None,
        hidden: tuple[int, ...] = (),
        activation: Literal["tanh", "silu", "relu"] = "tanh",
        prior_scale: float = USUAL_SCALE,
        num_particles: int | None = None,
        num_steps: int | None = None,
        batch_size: int | None = None,
        method: Method | None = None,
        random_state: int | np.random.RandomState | None = None,
    ):
        super().__init__(
            hidden=hidden,
            activation=activation,
            prior_scale=prior_scale,
            num_particles=num_particles,
            num_steps=num_steps,
            batch_size=batch_size,
            method=method,
            random_state=random_state,
        )
        self.noise = noise

    def coefficients(self):
        """Return mean, sd and quantiles of intercept and coefficients as a pandas DataFrame, by feature.

        If the noise varies, the coefficients of the logarithm of its scale follow, as the output "log scale".
        """
        return self._coefficient_frame(None if self._head.num_outputs == 1 else ("mean", "log scale"))

    @property
    def _head(self) -> Head:
        noise = self.noise or ("varying" if self.hidden else "constant")
        if noise not in _NOISES:
            raise ValueError(f"noise must be one of {list(_NOISES)}; got {noise!r}.")
        return _NOISES[noise]

    def _scaling(self, y):
        shift, scale = shift_and_scale(y)
        return float(shift), float(scale)

    @property
    def _output_units(self):
        shift, scale = self.response_shift_, self.response_scale_
        return (
            (shift, scale) if self._head.num_outputs == 1 else (np.array([shift, np.log(scale)]), np.array([scale, 1]))
        )


class SteinPoissonRegressor(_Regressor):
    """Bayesian regression of counts, Poisson with a logarithmic link: linear, or a neural network.

    Features are standardised inside; the precision of the weights is inferred, with a Gamma prior, in linear models.
    Coefficients are those of the logarithm of the mean. Arguments and attributes are those of
    `steinflow.estimators.SteinEstimator`.
    """

    @property
    def _head(self) -> Head:
        return Head(Poisson())

    def _scaling(self, y):
        return 0.0, 1.0
