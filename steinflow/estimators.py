"""scikit-learn estimators: Bayesian linear, logistic and neural regression with `fit` and `predict`, no JAX in sight.

Scaling is done inside. Predictions average over the particles in NumPy and float64, so that a fitted estimator does not
compile anything and pickles as arrays.
"""

import dataclasses
from collections.abc import Callable
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from steinflow.fit import fit
from steinflow.methods.base import Method
from steinflow.methods.svgd import SVGD
from steinflow.models.families import Bernoulli, Categorical, Family, Gaussian
from steinflow.models.generalized_linear import GeneralizedLinear
from steinflow.models.neural_network import NeuralNetwork
from steinflow.models.supervised import Scaling, Supervised, shift_and_scale, usual_batch_size, usual_num_steps
from steinflow.stopping import Converged
from steinflow.targets import Posterior
from steinflow.typing import Array

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ModuleNotFoundError as error:
    if error.name is None or error.name.split(".")[0] != "sklearn":
        raise
    raise ModuleNotFoundError(
        "The estimators need scikit-learn: pip install 'steinflow[sklearn]'.", name="sklearn"
    ) from error

_ROWS_AT_ONCE = 4_096  # of a prediction
_MIN_ROWS = 256  # fewer cost as much
_ACTIVATIONS = {"relu": lambda x: np.maximum(x, 0.0), "tanh": np.tanh}


class _SteinEstimator(BaseEstimator):
    """What both estimators share: the parameters, the run, and the outputs of all particles."""

    def __init__(
        self,
        *,
        hidden: tuple[int, ...] = (),
        activation: Literal["relu", "tanh"] = "relu",
        num_particles: int = 100,
        num_steps: int | None = None,
        batch_size: int | None = None,
        method: Method | None = None,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.hidden = hidden
        self.activation = activation
        self.num_particles = num_particles
        self.num_steps = num_steps
        self.batch_size = batch_size
        self.method = method
        self.random_state = random_state

    def _fit(self, X, y, family: Family, responses: Scaling):
        """Find the posterior given these rows, y on the scale of the model."""
        self.shift_, self.scale_ = shift_and_scale(X)
        return self._run(self._model(X, y, family), responses)

    def _update(self, X, y, family: Family, responses: Scaling):
        """Find the posterior given these rows too: the prior is the Gaussian with the moments of the particles."""
        particles = jax.tree.map(jnp.asarray, self.result_.particles)
        return self._run(self._model(X, y, family), responses, particles, _Moments.of(particles, self.result_.weights))

    def _model(self, X, y, family) -> Supervised:
        if self.activation not in _ACTIVATIONS:
            raise ValueError(f"activation is one of {list(_ACTIVATIONS)}; got {self.activation!r}.")
        inputs = (X - self.shift_) / self.scale_
        if self.hidden:
            hidden = tuple(self.hidden)
            return NeuralNetwork(inputs, y, hidden, self.activation, family=family, standardize=False)
        return GeneralizedLinear(inputs, y, family)

    def _run(self, model: Supervised, responses: Scaling, particles=None, log_prior=None):
        """Run the method, and keep the particles as NumPy arrays."""
        start_key, key = jax.random.split(jax.random.key(check_random_state(self.random_state).randint(2**31)))
        data, batch_size = _padded(model.data, self.batch_size)
        if particles is None:
            # Drawn here: the target holds only arrays of the padded shapes, so that it compiles once for all of them.
            padded = eqx.tree_at(lambda model: model.data, model, {name: data[name] for name in model.data})
            particles = jax.vmap(padded.sample_prior)(jax.random.split(start_key, self.num_particles))
        target = Posterior(log_prior or model.log_prior, _Weighted(model.log_likelihood), data, batch_size)
        result = fit(
            target,
            SVGD.default_for(model) if self.method is None else self.method,
            particles=particles,
            num_steps=self.num_steps or usual_num_steps(model.num_data, batch_size),
            key=key,
            progress=False,
            stop=Converged(),
        )
        # What the result says about data, it says about the user's X and y.
        inputs = Scaling(jnp.asarray(self.shift_, float), jnp.asarray(self.scale_, float))
        model = eqx.tree_at(lambda model: (model.inputs, model.responses), model, (inputs, responses))
        self.result_ = dataclasses.replace(result, target=model)
        self.n_iter_ = result.info["num_steps"]
        self._particles = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), result.particles)
        self._weights = np.full(len(result), 1 / len(result)) if result.weights is None else np.asarray(result.weights)
        return self

    def _outputs(self, X):
        """Return f(x) of every particle for every row, on the scale of the model: particles x rows x outputs."""
        X = (X - self.shift_) / self.scale_
        *hidden, last = _layers(self._particles)
        blocks = []
        for start in range(0, len(X), _ROWS_AT_ONCE):
            values = X[None, start : start + _ROWS_AT_ONCE]
            for weights, biases in hidden:
                values = _ACTIVATIONS[self.activation](values @ weights + biases[:, None])
            blocks.append(values @ last[0] + last[1][:, None])
        return np.concatenate(blocks, axis=1)

    def _validated(self, X):
        check_is_fitted(self, "result_")
        return validate_data(self, X, reset=False, dtype=np.float64)

    def _coefficients(self, scale):
        """Return intercepts (particles x outputs) and slopes (particles x features x outputs) for the user's X."""
        if self.hidden:
            raise AttributeError("A network has no coefficients; this estimator was fitted with hidden layers.")
        [(weights, biases)] = _layers(self._particles)
        slopes = weights * (scale / self.scale_)[:, None]
        return biases * scale - np.einsum("d,pdk->pk", self.shift_, slopes), slopes


def _is_linear(estimator) -> bool:
    return not estimator.hidden  # a network has more parameters than particles: their covariance says too little


class SteinRegressor(RegressorMixin, _SteinEstimator):
    """Bayesian regression: linear, or a neural network.

    Features and y are standardised inside; the precisions of weights and noise are inferred, with Gamma priors.

    Args:
        hidden: units of the hidden layers; () is linear regression.
        activation: between layers, "relu" or "tanh".
        num_particles: how many particles stand for the posterior.
        num_steps: at most, by default 1,000, or ten passes over the rows if that is more; the run stops before when the
            particles have settled.
        batch_size: rows per step; by default all of them up to 10,000 and 1,000 above.
        method: an inference method; by default `sf.SVGD()`, with hidden layers `sf.SVGD.for_networks()`.
        random_state: makes fits repeat themselves.

    Attributes:
        result_: the `sf.Result`, with particles on the standardised scale.
        coef_, intercept_: posterior means for the user's X, without hidden layers.
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

    @available_if(_is_linear)
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
        return _log_mean_exp(logs, self._weights)

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
        return _frame(self, np.concatenate([intercepts + self._shift, slopes[..., 0]], axis=1))

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


class SteinClassifier(ClassifierMixin, _SteinEstimator):
    """Bayesian logistic regression for two or more classes, or a neural network.

    Features are standardised inside; the precision of the weights is inferred, with a Gamma prior.

    Args:
        hidden: units of the hidden layers; () is logistic regression.
        activation: between layers, "relu" or "tanh".
        num_particles: how many particles stand for the posterior.
        num_steps: at most, by default 1,000, or ten passes over the rows if that is more; the run stops before when the
            particles have settled.
        batch_size: rows per step; by default all of them up to 10,000 and 1,000 above.
        method: an inference method; by default `sf.SVGD()`, with hidden layers `sf.SVGD.for_networks()`.
        random_state: makes fits repeat themselves.

    Attributes:
        classes_: the labels.
        result_: the `sf.Result`, with particles on the standardised scale.
        coef_, intercept_: posterior means for the user's X, without hidden layers; one row per class, or one row for
            two classes.
        n_iter_: how many steps were made.

    Example:
        ```python
        from sklearn.datasets import load_iris
        import steinflow as sf

        X, y = load_iris(return_X_y=True)
        probabilities = sf.SteinClassifier(random_state=0).fit(X, y).predict_proba(X)
        ```
    """

    def fit(self, X, y):
        """Find the posterior given the rows of X and their labels y."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, y = np.unique(y, return_inverse=True)
        self._check_classes()
        return self._fit(X, y, self._family, Scaling.none())

    @available_if(_is_linear)
    def partial_fit(self, X, y, classes=None):
        """Go on with more rows: the posterior so far, as a Gaussian, is the prior. The first call sets the scaling."""
        first = not hasattr(self, "result_")
        X, y = validate_data(self, X, y, reset=first, dtype=np.float64)
        check_classification_targets(y)
        if first:
            if classes is None:
                raise ValueError("The first call of partial_fit needs classes, all labels that will ever come.")
            self.classes_ = np.unique(classes)
            self._check_classes()
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y has labels that are not in classes {self.classes_}: {unknown}.")
        step = self._fit if first else self._update
        return step(X, np.searchsorted(self.classes_, y), self._family, Scaling.none())

    def predict_proba(self, X):
        """Return the posterior mean of the probability of every class."""
        probabilities = np.exp(self._log_probabilities(X))
        return np.einsum("p,pnk->nk", self._weights, probabilities)

    def predict_log_proba(self, X):
        """Return the logarithm of `predict_proba`."""
        logs = self._log_probabilities(X)
        return _log_mean_exp(logs, self._weights)

    def predict(self, X):
        """Return the most probable label of every row."""
        best = np.argmax(self.predict_log_proba(X), axis=1)
        return self.classes_[best]

    def log_predictive(self, X, y):
        """Return the log probability of the label y under the posterior predictive distribution, for every row."""
        logs = self.predict_log_proba(X)
        return logs[np.arange(len(logs)), np.searchsorted(self.classes_, np.asarray(y))]

    @property
    def coef_(self):
        """The posterior mean of the coefficients."""
        return np.einsum("p,pdk->kd", self._weights, self._coefficients(1.0)[1])

    @property
    def intercept_(self):
        """The posterior mean of the intercepts."""
        return self._weights @ self._coefficients(1.0)[0]

    def coefficients(self):
        """Return mean, sd and quantiles of intercepts and coefficients as a pandas DataFrame, by feature and class."""
        intercepts, slopes = self._coefficients(1.0)
        values = np.concatenate([intercepts[:, None], slopes], axis=1)
        return _frame(self, values.reshape(len(values), -1), self.classes_ if values.shape[2] > 1 else None)

    @property
    def _family(self) -> Family:
        return Bernoulli() if len(self.classes_) == 2 else Categorical(len(self.classes_))

    def _check_classes(self):
        if len(self.classes_) < 2:
            raise ValueError(f"SteinClassifier needs at least two classes; y has one class, {self.classes_[0]!r}.")

    def _log_probabilities(self, X):
        outputs = self._outputs(self._validated(X))
        if outputs.shape[2] == 1:
            outputs = np.concatenate([np.zeros_like(outputs), outputs], axis=2)
        return outputs - np.logaddexp.reduce(outputs, axis=2, keepdims=True)


class _Weighted(eqx.Module):
    """A log likelihood whose rows count as often as their weights say: rows of padding not at all."""

    log_likelihood: Callable

    def __call__(self, params, rows):
        return rows["weight"] * self.log_likelihood(params, {"X": rows["X"], "y": rows["y"]})


class _Moments(eqx.Module):
    """The Gaussian log density with the mean and covariance of particles."""

    mean: Array
    factor: Array

    @classmethod
    def of(cls, particles, weights) -> "_Moments":
        points = jax.vmap(lambda params: ravel_pytree(params)[0])(particles)
        covariance = jnp.atleast_2d(jnp.cov(points.T, aweights=weights))
        covariance += 1e-6 * jnp.diag(jnp.diag(covariance) + 1e-6)
        return cls(jnp.average(points, axis=0, weights=weights), jnp.linalg.cholesky(covariance))

    def __call__(self, params):
        centred = ravel_pytree(params)[0] - self.mean
        return -0.5 * jnp.sum(jax.scipy.linalg.solve_triangular(self.factor, centred, lower=True) ** 2)


def _padded(data, batch_size):
    """Return the data with weights, and the batch size.

    Small data are filled up to a power of two by rows of weight zero, so that fits of about the same size share
    compiled code: cross-validation and learning curves compile once.
    """
    num_rows = len(data["y"])
    batch_size = usual_batch_size(num_rows) if batch_size is None else batch_size
    if batch_size is not None:
        return {**data, "weight": jnp.ones(num_rows)}, min(batch_size, num_rows)
    missing = max(_MIN_ROWS, 1 << (num_rows - 1).bit_length()) - num_rows
    padded = {
        name: jnp.pad(values, [(0, missing)] + [(0, 0)] * (values.ndim - 1), mode="edge")
        for name, values in data.items()
    }
    return {**padded, "weight": jnp.pad(jnp.ones(num_rows), (0, missing))}, None


def _layers(particles):
    """Weights (particles x inputs x outputs) and biases (particles x outputs) of every layer."""
    if "weights" in particles:
        return list(zip(particles["weights"], particles["biases"], strict=True))
    w = particles["w"]
    w = w[..., None] if w.ndim == 2 else w
    return [(w[:, :-1], w[:, -1])]


def _log_mean_exp(logs, weights):
    highest = np.max(logs, axis=0)
    return highest + np.log(np.tensordot(weights, np.exp(logs - highest), axes=1))


def _frame(estimator, values, classes=None):
    import pandas

    names = getattr(estimator, "feature_names_in_", [f"x{k}" for k in range(estimator.n_features_in_)])
    index = pandas.Index(["intercept", *names], name="feature")
    if classes is not None:
        index = pandas.MultiIndex.from_product([index, classes], names=["feature", "class"])
    weights = estimator._weights
    mean = weights @ values
    quantiles = np.quantile(
        values,
        [0.05, 0.5, 0.95],
        axis=0,
        weights=np.broadcast_to(weights[:, None], values.shape),
        method="inverted_cdf",
    )
    columns = {"mean": mean, "sd": np.sqrt(weights @ (values - mean) ** 2)}
    return pandas.DataFrame({**columns, **dict(zip(("5%", "50%", "95%"), quantiles, strict=True))}, index=index)
