"""What all regressions and classifiers share: scaled data, a likelihood, predictions and the paper's metrics."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from steinflow.devices.arrays import as_array
from steinflow.models.families import Family
from steinflow.models.families.base import Forms
from steinflow.models.families.real import Noisy
from steinflow.models.heads import Head
from steinflow.targets.data import Rows
from steinflow.targets.forecasts import Forecaster
from steinflow.targets.observations import Observations, Predictions
from steinflow.targets.posterior import Approached, Posterior, approach_of
from steinflow.typing import Array, Batch, Params, PRNGKeyArray, Scalar, Weights

_ALL_ROWS, _BATCH = 10_000, 1_000
_NETWORK_BATCH = 100
_ROWS_FOR_NOISE = 1000  # the first guess of the noise looks at this many, evenly spread
PARTICLES_AT_ONCE = 32  # predictions for many rows stay small in memory


class Scaling(eqx.Module):
    """A shift and a scale per column: `(x - shift) / scale` has mean 0 and sd 1 on the training rows."""

    shift: Array
    scale: Array

    @classmethod
    def of(cls, values: Array) -> "Scaling":
        """Return the scaling of these rows; a constant column is only shifted."""
        shift, scale = shift_and_scale(np.asarray(values, float))
        return cls(*(as_array(part, values.dtype) for part in (shift, scale)))

    @classmethod
    def none(cls) -> "Scaling":
        """Return the scaling that changes nothing."""
        return cls(as_array(0.0), as_array(1.0))

    def __call__(self, values: Array) -> Array:
        return (values - self.shift) / self.scale

    def on_host(self, values: Array) -> Array:
        """Return the same without compiling anything, for arrays that are not traced."""
        return as_array((np.asarray(values) - np.asarray(self.shift)) / np.asarray(self.scale))


def usual_batch_size(num_rows: int, *, is_network: bool = False) -> int | None:
    """Return how many rows a step sees where nothing was said: all of few (None), some of many.

    Networks want many small steps: 100 rows each, a hundredth of all where they are many, and 1,000 at most.
    """
    if not is_network:
        return None if num_rows <= _ALL_ROWS else _BATCH
    return None if num_rows <= _NETWORK_BATCH else min(max(num_rows // 100, _NETWORK_BATCH), _BATCH)


class Likelihood(Approached, Forecaster):
    """log p(y | f(params, X)) for every row; where it is to be climbed, what the head has for that."""

    forward: Callable[[Params, Array], Array]
    head: Head
    climbed: bool = False

    @property
    def approach(self) -> "Likelihood":
        return Likelihood(self.forward, self.head, climbed=True)

    def __call__(self, params, batch):
        forms = self.head.forms(self.forward(params, batch["X"]), params)
        values = self.head.family.log_density(forms, batch)
        return self.head.climbed(forms, values) if self.climbed else values

    def forecasts(self, params, rows):
        return self.head.family.forecasts(self.head.forms(self.forward(params, rows["X"]), params), rows)

    def calibration(self, forecasts, rows):
        return self.head.family.calibration(forecasts, np.asarray(rows["y"]))


class Weighted(Approached, Forecaster):
    """A log likelihood whose rows count as often as `weight` in the data says: rows of padding not at all."""

    log_likelihood: Callable[[Params, Batch], Array]

    @property
    def approach(self):
        return Weighted(approach_of(self.log_likelihood))

    def __call__(self, params, rows):
        return rows["weight"] * self.log_likelihood(params, {"X": rows["X"], "y": rows["y"]})

    def forecasts(self, params, rows):
        return self._forecaster.forecasts(params, rows)

    @property
    def _forecaster(self) -> Forecaster:
        assert isinstance(self.log_likelihood, Forecaster)
        return self.log_likelihood

    def calibration(self, forecasts, rows):
        counted = np.asarray(rows["weight"]) > 0
        if not np.any(counted):
            return {}
        return self._forecaster.calibration(forecasts[counted], {"y": np.asarray(rows["y"])[counted]})


class Supervised(Posterior):
    """A posterior over the parameters of y = f(x): fit it with any method, then predict from the particles.

    To add one: derive from this class, call `Supervised.__init__` with the function f and the log prior, and implement
    `sample_prior`.

    Raises:
        ValueError: if X and y have not as many rows, or the family does not take such y.
    """

    head: Head = eqx.field(kw_only=True)
    forward: Callable[[Params, Array], Array] = eqx.field(kw_only=True)
    inputs: Scaling = eqx.field(kw_only=True)
    responses: Scaling = eqx.field(kw_only=True)

    def __init__(self, X, y, forward, log_prior, *, family, batch_size, standardize):
        self.head, self.forward = Head.of(family), forward
        X, y = as_features(X), self.checked(y)
        if len(X) != len(y):
            raise ValueError(f"X and y need one entry per row; got {len(X)} rows in X and {len(y)} in y.")
        self.inputs = Scaling.of(X) if standardize else Scaling.none()
        self.responses = Scaling.of(y) if standardize and self.family.real_valued else Scaling.none()
        y = self.responses.on_host(y) if self.family.real_valued else y
        data = {"X": self.inputs.on_host(X), "y": y}
        super().__init__(log_prior, Likelihood(forward, self.head), data, batch_size)

    @property
    def family(self) -> Family:
        """The distribution of y."""
        return self.head.family

    def checked(self, y: ArrayLike) -> Array:
        """Return the user's y as the likelihood wants it, on its raw scale.

        Raises:
            ValueError: if the family does not take such y.
        """
        return checked_responses(self.family, y)

    @abc.abstractmethod
    def sample_prior(self, key: PRNGKeyArray) -> Params:
        """Draw one starting particle."""

    def with_first_noise(self, params: Params, key: PRNGKeyArray) -> Params:
        """Return a starting particle with auxiliary parameters; noise starts at the particle's own training error."""
        params = self.head.with_auxiliary(params, key)
        if not self.head.noisy:
            return params
        assert isinstance(self.family, Noisy)
        rows = slice(None, None, -(-self.data.num_rows // _ROWS_FOR_NOISE))
        X, y = self.data.values["X"][rows], self.data.values["y"][rows]
        errors = self.family.deviation({"mu": self.head.mu(self.forward(params, X))}, {"y": y})
        return {**params, "log_gamma": -jnp.log(jnp.maximum(jnp.mean(errors**2), 1e-6))}  # one row may fit exactly

    def forms(self, params: Params, X: Array) -> Forms:
        """Return the parameters of the family for every row, given one particle, on the scale of the model."""
        return self.head.forms(self.forward(params, X), params)

    def mean(self, params: Params, X: ArrayLike) -> Array:
        """Return the mean of y for every row, given one particle; of classes, their probabilities."""
        return self.raw(self.family.mean(self.forms(params, self.inputs(jnp.asarray(X, float))), {}))

    def predict(self, particles: Params, X: ArrayLike, *, weights: Weights | None = None) -> Array:
        """Return the posterior mean of y for every row: for classes, their probabilities (of class 1 if there are two).

        Args:
            particles: as in `result.particles`.
            X: rows as given by the user, not standardised.
            weights: as in `result.weights`.
        """
        return _predict(self, particles, as_features(X), log_weights_of(particles, weights))

    def log_predictive(self, particles: Params, X: ArrayLike, y: ArrayLike, *, weights: Weights | None = None) -> Array:
        r"""Return $\log \sum_j w_j\, p(y_i \mid x_i, \theta_j)$ for every row, y on its raw scale."""
        y = self.checked(y)
        return _log_predictive(self, particles, as_features(X), y, log_weights_of(particles, weights))

    def evaluate(
        self, particles: Params, X: ArrayLike, y: ArrayLike, *, weights: Weights | None = None
    ) -> dict[str, float]:
        """Return the mean test `log_likelihood` and the `accuracy` (classes) or `rmse` (numbers), as the paper does."""
        means = self.predict(particles, X, weights=weights)
        metrics = self.family.metrics(means, self.checked(y))
        log_likelihood = jnp.mean(self.log_predictive(particles, X, y, weights=weights))
        return {name: float(value) for name, value in {**metrics, "log_likelihood": log_likelihood}.items()}

    @property
    def data(self) -> Rows:
        """The standardised X and y, in memory."""
        assert isinstance(self._data, Rows)
        return self._data

    @property
    def observations(self) -> Observations:
        return ObservedResponses(self)

    def raw(self, y: Array) -> Array:
        """Return y on the user's scale."""
        return y * self.responses.scale + self.responses.shift if self.family.real_valued else y


class ObservedResponses(Observations):
    """The responses y that a model was given, on the user's scale."""

    model: Supervised

    def observed(self):
        return {"y": self.model.raw(self.model.data.values["y"])}

    def log_likelihoods(self, particles):
        values = jax.vmap(self.model.log_likelihood, in_axes=(0, None))(particles, self.model.data.values)
        return {"y": values - jnp.log(self.model.responses.scale)}

    def predictions(self, particles, max_rows):
        model = self.model
        every = -(-model.data.num_rows // max_rows)
        X, y = (model.data.values[name][::every] for name in ("X", "y"))
        return _predictions(model, particles, X, y)

    def predictive(self, particles, X=None, *, key):
        inputs = self.model.data.values["X"] if X is None else self.model.inputs(as_features(X))
        forms = jax.tree.map(lambda leaf: np.asarray(leaf, float), _forms(self.model, particles, inputs))
        return {"y": self.model.raw(as_array(self.model.family.sample(generator(key), forms, {})))}


@eqx.filter_jit
def _forms(model, particles, X):
    def one(params):
        forms = model.forms(params, X)
        return {name: jnp.broadcast_to(values, forms["mu"].shape) for name, values in forms.items()}

    return _over_particles(one, particles)


@eqx.filter_jit
def _predictions(model, particles, X, y):
    """Return what every particle expects of standardised rows, in units of the model."""

    def one(params):
        mean, variance = mean_and_variance(model.family, model.forms(params, X))
        return jnp.ravel(mean), jnp.ravel(variance)

    means, variances = _over_particles(one, particles)
    return Predictions(means, variances, jnp.ravel(model.family.numbers(y)))


@eqx.filter_jit
def _predict(model, particles, X, log_weights):
    means = _over_particles(lambda params: model.mean(params, X), particles)
    return jnp.tensordot(jnp.exp(log_weights), means, axes=1)


@eqx.filter_jit
def _log_predictive(model, particles, X, y, log_weights):
    batch = {"X": model.inputs(X), "y": model.responses(y) if model.family.real_valued else y}
    return log_mean_likelihood(model.log_likelihood, particles, batch, log_weights) - jnp.log(model.responses.scale)


def log_mean_likelihood(
    log_likelihood: Callable[[Params, Batch], Array], particles: Params, rows: Batch, log_weights: Array
) -> Array:
    """Return the logarithm of the mean likelihood of every row under all particles."""
    values = _over_particles(lambda params: log_likelihood(params, rows), particles)
    return jax.nn.logsumexp(values + log_weights[:, None], axis=0)


def mean_and_variance(family: Family, forms: Forms) -> tuple[Array, Array]:
    """Return both for every row; where all rows have the same noise, forms have it once."""
    mean = family.mean(forms, {})
    return mean, jnp.broadcast_to(family.variance(forms, {}), mean.shape)


def _over_particles(function, particles):
    return jax.lax.map(function, particles, batch_size=PARTICLES_AT_ONCE)


def log_weights_of(particles: Params, weights: Weights | None = None) -> Array:
    """Return the logarithms of the weights, which are equal if not given."""
    n = len(jax.tree.leaves(particles)[0])
    with np.errstate(divide="ignore"):  # a weight of zero has the logarithm of minus infinity
        return as_array(np.log(np.full(n, 1 / n) if weights is None else np.asarray(weights)), float)


def checked_responses(family: Family, y: ArrayLike) -> Array:
    """Return y as one column of what the family takes."""
    y = np.asarray(y).reshape(-1)
    if not np.all(np.isfinite(y)):
        raise ValueError("y has missing or infinite values; drop those rows.")
    return as_array(family.check(y), float if family.num_classes is None else int)


def generator(key: PRNGKeyArray) -> np.random.Generator:
    """Return a generator of NumPy that is seeded by a key."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


def as_features(X) -> Array:
    """Return X as a matrix of finite real numbers, one row per example; images and the like are laid out as rows."""
    X = np.asarray(X)
    if X.ndim < 2:
        raise ValueError(
            f"X must be a matrix, one row per example; got shape {X.shape}. A single feature goes in as x[:, None]."
        )
    X = X.reshape(len(X), -1)
    if not np.all(np.isfinite(X)):
        rows = np.flatnonzero(~np.all(np.isfinite(X), axis=1))
        first = ", ".join(map(str, rows[:5])) + ", ..." * (len(rows) > 5)
        raise ValueError(
            f"X has missing or infinite values in {len(rows)} of {len(X)} rows: {first} (the first is 0); fill them in "
            "or drop those rows."
        )
    return as_array(X, float)


def shift_and_scale(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and sd of every column in double precision, also of huge numbers; a constant column is not scaled."""
    _, exponent = np.frexp(np.max(np.abs(values), axis=0))
    values = np.ldexp(values, -exponent)  # exact, and squares do not overflow
    shift, scale = np.mean(values, axis=0), np.std(values, axis=0)
    # A constant column has a sd of rounding errors.
    varies = scale > 10 * np.finfo(float).eps * np.abs(shift)
    return np.ldexp(shift, exponent), np.where(varies, np.ldexp(scale, exponent), 1.0)


def sample_log_gamma(key: PRNGKeyArray, *, shape: float, rate: Array) -> Scalar:
    """Draw log s with s ~ Gamma(shape, rate)."""
    # An exponential where that is what it is: loggamma takes seconds to compile.
    log_gamma = jnp.log(jax.random.exponential(key)) if shape == 1 else jax.random.loggamma(key, shape)
    return log_gamma - jnp.log(rate)


def log_gamma_prior(log_value: Scalar, *, shape: float, rate: Array | float) -> Scalar:
    """Return the log density of log s, up to a constant, with s ~ Gamma(shape, rate): the Jacobian is in it."""
    return shape * log_value - rate * jnp.exp(log_value)
