"""What the estimators share: their parameters, the run, and the outputs of all particles."""

import dataclasses
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from steinflow.inference.loop import fit
from steinflow.inference.stopping import Converged
from steinflow.methods.base import Method
from steinflow.methods.svgd.method import SVGD
from steinflow.models.families import Family
from steinflow.models.generalized_linear import GeneralizedLinear
from steinflow.models.neural_network import NeuralNetwork
from steinflow.models.prior_scales import best_prior_scale
from steinflow.models.supervised import (
    Scaling,
    Supervised,
    Weighted,
    shift_and_scale,
    usual_batch_size,
    usual_num_steps,
)
from steinflow.targets.base import Posterior
from steinflow.typing import Array

_ROWS_AT_ONCE = 4_096  # of a prediction
_MIN_ROWS = 256  # fewer cost as much
_ACTIVATIONS = {"relu": lambda x: np.maximum(x, 0.0), "tanh": np.tanh}
_SCOUTS = 20  # particles that choose the width of a network's prior


class SteinEstimator(BaseEstimator):
    """The parameters, the run, and the outputs of all particles."""

    def __init__(
        self,
        *,
        hidden: tuple[int, ...] = (),
        activation: Literal["relu", "tanh"] = "relu",
        prior_scale: float | None = None,
        num_particles: int = 100,
        num_steps: int | None = None,
        batch_size: int | None = None,
        method: Method | None = None,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.hidden = hidden
        self.activation = activation
        self.prior_scale = prior_scale
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
        inputs, num_rows = (X - self.shift_) / self.scale_, len(y)
        batch_size = usual_batch_size(num_rows, is_network=bool(self.hidden))
        if self.batch_size is not None:
            batch_size = min(self.batch_size, num_rows)
        if not self.hidden:
            return GeneralizedLinear(inputs, y, family, batch_size=batch_size)
        return NeuralNetwork(
            inputs,
            y,
            tuple(self.hidden),
            self.activation,
            family=family,
            batch_size=batch_size,
            prior_scale=1.0 if self.prior_scale is None else self.prior_scale,
            standardize=False,
        )

    def _run(self, model: Supervised, responses: Scaling, particles=None, log_prior=None):
        """Run the method, and keep the particles as NumPy arrays."""
        start_key, key = jax.random.split(jax.random.key(check_random_state(self.random_state).randint(2**31)))
        is_network = isinstance(model, NeuralNetwork)
        num_steps = self.num_steps or usual_num_steps(model.num_data, model.batch_size, is_network=is_network)
        padded, row_weights = _padded(model)
        if is_network:
            self.prior_scale_ = self.prior_scale or best_prior_scale(
                padded,
                num_particles=min(self.num_particles, _SCOUTS),
                num_steps=num_steps,
                row_weights=row_weights,
                key=key,
            )
            model, padded = (part.with_prior_scale(self.prior_scale_) for part in (model, padded))
        if particles is None:
            # From the padded rows: there the target holds only arrays of shapes that it was compiled for.
            particles = jax.vmap(padded.sample_prior)(jax.random.split(start_key, self.num_particles))
        data = {**padded.data, "weight": row_weights}
        result = fit(
            Posterior(log_prior or padded.log_prior, Weighted(model.log_likelihood), data, model.batch_size),
            SVGD.default_for(model) if self.method is None else self.method,
            particles=particles,
            num_steps=num_steps,
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


def is_linear(estimator: SteinEstimator) -> bool:
    """Whether `partial_fit` makes sense: of a network's weights the covariance of the particles says too little."""
    return not estimator.hidden


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


def _padded(model):
    """Return the model with weights for its rows.

    Where every step takes all rows, they are filled up to a power of two by rows of weight zero, so that fits of about
    the same size share compiled code: cross-validation and learning curves compile once.
    """
    num_rows = model.num_data
    missing = 0 if model.batch_size else max(_MIN_ROWS, 1 << (num_rows - 1).bit_length()) - num_rows
    data = {
        name: jnp.pad(values, [(0, missing)] + [(0, 0)] * (values.ndim - 1), mode="edge")
        for name, values in model.data.items()
    }
    return eqx.tree_at(lambda model: model.data, model, data), jnp.pad(jnp.ones(num_rows), (0, missing))


def _layers(particles):
    """Weights (particles x inputs x outputs) and biases (particles x outputs) of every layer."""
    if "weights" in particles:
        return list(zip(particles["weights"], particles["biases"], strict=True))
    w = particles["w"]
    w = w[..., None] if w.ndim == 2 else w
    return [(w[:, :-1], w[:, -1])]


def log_mean_exp(logs, weights):
    """Return the logarithm of the weighted mean over particles, the first axis."""
    highest = np.max(logs, axis=0)
    return highest + np.log(np.tensordot(weights, np.exp(logs - highest), axes=1))


def coefficient_frame(estimator, values, classes=None):
    """Return mean, sd and quantiles of coefficients by feature, and by class, as a pandas DataFrame."""
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
