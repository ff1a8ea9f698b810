"""Bayesian regression with the interface of scikit-learn."""

import jax.numpy as jnp
import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from steinflow.estimators.base import SteinEstimator, coefficient_frame, is_linear, log_mean_exp
from steinflow.models.families import Gaussian
from steinflow.models.supervised import Scaling, shift_and_scale


class SteinRegressor(RegressorMixin, SteinEstimator):
    """Bayesian regression: linear, or a neural network.

    Features and y are standardised inside; the precisions of weights and noise are inferred, with Gamma priors; that of
    the weights by cross-validation with hidden layers.

    Args:
        hidden: units of the hidden layers; () is linear regression.
        activation: between layers, "relu" or "tanh".
        prior_scale: of a network's weights, whose prior is N(0, prior_scale² / fan_in); by default the best of 1, 3 and
            9 by cross-validation on log-likelihood.
        num_particles: how many particles stand for the posterior.
        num_steps: at most, by default 1,000, or ten passes over the rows if that is more; the run stops before when the
            particles have settled. Networks take 2,000, or 50 passes, 20,000 at most.
        batch_size: rows per step; by default all of them up to 10,000 and 1,000 above, with hidden layers 100 to 1,000.
        method: an inference method; by default `sf.SVGD()`, with hidden layers `sf.SVGD.for_networks(25.0)`.
        random_state: makes fits repeat themselves.

    Attributes:
        result_: the `sf.Result`, with particles on the standardised scale.
        coef_, intercept_: posterior means for the user's X, without hidden layers.
        prior_scale_: of the weights, with hidden layers.
        n_iter_: how many steps were made.

    Example:
        ```python
        from sklearn.datasets import load_diabetes
        import steinflow as sf

        X, y = load_diabetes(return_X_y=True)
        mean, sd = sf.SteinRegressor(random_state=0).fit(X, y).predict(X, return_std=True)
        ```
    """

    def fit(self, X, y):
        """Find the posterior given the rows of X and the numbers y."""
        X, y = self._checked(X, y)
        self._shift, self._scale = (float(value) for value in shift_and_scale(y))
        return self._fit(X, (y - self._shift) / self._scale, Gaussian(), self._responses)

    @available_if(is_linear)
    def partial_fit(self, X, y):
        """Go on with more rows: the posterior so far, as a Gaussian, is the prior. The first call sets the scaling."""
        if not hasattr(self, "result_"):
            return self.fit(X, y)
        X, y = self._checked(X, y, reset=False)
        return self._update(X, (y - self._shift) / self._scale, Gaussian(), self._responses)

    def predict(self, X, return_std=False):  # noqa: FBT002
        """Return the posterior mean of y, and with `return_std` its standard deviation, noise included."""
        outputs = self._raw_outputs(X)
        mean = self._weights @ outputs
        if not return_std:
            return mean
        spread = self._weights @ (outputs - mean) ** 2
        return mean, np.sqrt(spread + self._weights @ self._noise_variance)

    def log_predictive(self, X, y):
        """Return the log density of y under the posterior predictive distribution, for every row."""
        outputs, variance = self._raw_outputs(X), self._noise_variance[:, None]
        logs = -0.5 * (np.asarray(y, np.float64) - outputs) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance)
        return log_mean_exp(logs, self._weights)

    @property
    def coef_(self):
        """The posterior mean of the coefficients."""
        return self._weights @ self._coefficients(self._scale)[1][..., 0]

    @property
    def intercept_(self):
        """The posterior mean of the intercept."""
        return float(self._weights @ self._coefficients(self._scale)[0][:, 0] + self._shift)

    def coefficients(self):
        """Return mean, sd and quantiles of intercept and coefficients as a pandas DataFrame, by feature."""
        intercepts, slopes = self._coefficients(self._scale)
        return coefficient_frame(self, np.concatenate([intercepts + self._shift, slopes[..., 0]], axis=1))

    @property
    def _noise_variance(self):
        return np.exp(-self._particles["log_gamma"]) * self._scale**2

    @property
    def _responses(self):
        return Scaling(jnp.asarray(self._shift), jnp.asarray(self._scale))

    def _raw_outputs(self, X):
        X = self._validated(X)
        return self._outputs(X)[..., 0] * self._scale + self._shift

    def _checked(self, X, y, *, reset=True) -> tuple[np.ndarray, np.ndarray]:
        X, y = validate_data(self, X, y, reset=reset, dtype=np.float64, y_numeric=True)
        return np.asarray(X), np.asarray(y, np.float64)
