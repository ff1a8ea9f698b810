"""What a posterior says about rows, in the units of the table, and how well it does on rows with known answers."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.models.families import Gaussian
from steinflow.models.supervised import Supervised
from steinflow.tables.problems import Problem
from steinflow.tables.tables import Frame
from steinflow.typing import Params, Weights

_ROWS_AT_ONCE = 4096
_PARTICLES_AT_ONCE = 32
_BISECTIONS = 40
_BINS = 10
_LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
INTERVAL = 0.9


@dataclasses.dataclass(frozen=True)
class Predictions:
    """The predictive distribution of every row.

    Attributes:
        mean: of numbers, or the probabilities of the classes, one column each.
        low, high: the limits of the 90% interval of numbers.
        labels: of the classes.
    """

    mean: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    labels: tuple[str, ...] = ()

    @property
    def best(self) -> np.ndarray:
        """The most probable class, or the mean."""
        return np.array(self.labels, dtype=object)[np.argmax(self.mean, axis=1)] if self.labels else self.mean

    def frame(self) -> Frame:
        """Return a table: the prediction, and the probabilities or the interval."""
        import pandas

        if self.labels:
            probabilities = {f"P({label})": self.mean[:, k] for k, label in enumerate(self.labels)}
            return pandas.DataFrame({"prediction": self.best, **probabilities})
        return pandas.DataFrame({"prediction": self.mean, "5%": self.low, "95%": self.high})


def predict(problem: Problem, particles: Params, X: np.ndarray, *, weights: Weights | None = None) -> Predictions:
    """Return the posterior predictive distribution of encoded rows."""
    model, response = problem.without_data(), problem.response
    weights = _weights(particles, weights)
    if response.kind == "classes":
        means = _by_rows(lambda rows: model.predict(particles, rows, weights=weights), X)
        means = np.stack([1 - means, means], axis=1) if means.ndim == 1 else means
        return Predictions(means, labels=response.labels)
    moments = _by_rows(lambda rows: _numbers(model, particles, weights, rows), X)
    mean, low, high = (moments * response.scale + response.shift).T
    return Predictions(mean, low, high)


def evaluate(
    problem: Problem, particles: Params, X: np.ndarray, y: np.ndarray, *, weights: Weights | None = None
) -> dict[str, Any]:
    """Return figures and calibration on encoded rows with known answers, as plain values.

    Classes: accuracy, the accuracy of always guessing the most frequent class, log-likelihood, and the expected
    calibration error. Numbers: root mean square error, R², log-likelihood, and how many lie in their 90% interval.
    """
    model, response = problem.without_data(), problem.response
    weights = _weights(particles, weights)
    predictions = predict(problem, particles, X, weights=weights)

    def log_predictive(rows):
        return model.log_predictive(particles, rows[:, :-1], rows[:, -1], weights=weights)

    log_likelihood = float(np.mean(_by_rows(log_predictive, np.column_stack([X, y])))) - np.log(response.scale)
    if response.kind == "classes":
        figures, details = _about_classes(predictions.mean, y.astype(int))
    else:

        def places(rows):
            return _places(model, particles, weights, rows[:, :-1], rows[:, -1])

        pit = _by_rows(places, np.column_stack([X, y]))
        truth = y * response.scale + response.shift
        figures, details = _about_numbers(predictions.mean, truth, pit)
    return {"num_rows": len(y), "metrics": {**figures, "log_likelihood": float(log_likelihood)}, **details}


def _about_classes(probabilities, codes):
    num_classes = probabilities.shape[1]
    guess = np.argmax(probabilities, axis=1)
    counts = np.bincount(codes, minlength=num_classes)
    # Two classes: how often the second one comes true. More: how often the first guess does.
    confidence = probabilities[:, 1] if num_classes == 2 else np.max(probabilities, axis=1)
    happened = (codes == 1) if num_classes == 2 else (guess == codes)
    bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    curve = [
        [float(np.mean(confidence[bins == b])), float(np.mean(happened[bins == b])), int(np.sum(bins == b))]
        for b in range(_BINS)
        if np.any(bins == b)
    ]
    confusion = np.zeros((num_classes, num_classes), int)
    np.add.at(confusion, (codes, guess), 1)
    figures = {
        "accuracy": float(np.mean(guess == codes)),
        "accuracy_of_guessing": float(np.max(counts) / len(codes)),
        "calibration_error": float(sum(n * abs(p - f) for p, f, n in curve) / len(codes)),
    }
    return figures, {"calibration": curve, "confusion": confusion.tolist()}


def _about_numbers(mean, truth, pit):
    centre = 2 * np.abs(pit - 0.5)  # an interval of this size just holds the truth
    curve = [[level, float(np.mean(centre <= level)), len(pit)] for level in _LEVELS]
    unit = max(float(np.max(np.abs(truth))), float(np.max(np.abs(mean))), 1e-300)  # squares of huge numbers overflow
    errors, spread = (mean - truth) / unit, np.std(truth / unit)
    rmse = np.sqrt(np.mean(errors**2))
    figures = {
        "rmse": float(rmse * unit),
        "r2": float(1 - (rmse / spread) ** 2) if spread > 0 else None,
        "coverage_90": float(np.mean(centre <= INTERVAL)),
    }
    return figures, {"calibration": curve}


@eqx.filter_jit
def _numbers(model: Supervised, particles, weights, X):
    """Return mean and limits of the predictive distribution of every row, on the scale of the model."""
    outputs, log_gammas = _outputs(model, particles, X)
    means = model.family.mean(outputs)
    mean = weights @ means
    if isinstance(model.family, Gaussian):
        sd = jnp.sqrt(weights @ (means - mean) ** 2 + weights @ jnp.exp(-log_gammas))
    else:
        sd = jnp.sqrt(weights @ (means - mean) ** 2 + mean)
    ends = mean - 10 * sd - 1, mean + 10 * sd + 10

    def quantile(level):
        def halve(_, ends):
            low, high = ends
            middle = (low + high) / 2
            below = weights @ _cdf(model.family, outputs, log_gammas, middle) < level
            return jnp.where(below, middle, low), jnp.where(below, high, middle)

        return jax.lax.fori_loop(0, _BISECTIONS, halve, ends)[1]

    limits = [quantile(level) for level in ((1 - INTERVAL) / 2, (1 + INTERVAL) / 2)]
    if not isinstance(model.family, Gaussian):
        limits = [jnp.maximum(jnp.floor(limit), 0.0) for limit in limits]
    return jnp.stack([mean, *limits], axis=1)


@eqx.filter_jit
def _places(model, particles, weights, X, y):
    """Return where y lies in its predictive distribution, between 0 and 1; halfway over the jump of a count."""
    outputs, log_gammas = _outputs(model, particles, X)
    above = weights @ _cdf(model.family, outputs, log_gammas, y)
    if isinstance(model.family, Gaussian):
        return above
    return (above + weights @ _cdf(model.family, outputs, log_gammas, y - 1)) / 2


def _cdf(family, outputs, log_gammas, y):
    """Return P(Y <= y) for every particle and row."""
    if isinstance(family, Gaussian):
        return jax.scipy.stats.norm.cdf((y - outputs) * jnp.exp(0.5 * log_gammas)[:, None])
    counts = jnp.floor(y)
    return jnp.where(counts < 0, 0.0, jax.scipy.special.gammaincc(jnp.maximum(counts, 0.0) + 1, family.mean(outputs)))


def _outputs(model, particles, X):
    outputs = jax.lax.map(lambda params: model.outputs(params, X), particles, batch_size=_PARTICLES_AT_ONCE)
    return outputs, particles.get("log_gamma", jnp.zeros(len(outputs)))


def _by_rows(function, rows: np.ndarray) -> np.ndarray:
    """Apply a function of rows to blocks of the same size, so that it compiles once and stays small in memory."""
    size = min(_ROWS_AT_ONCE, len(rows))
    blocks = []
    for start in range(0, len(rows), size):
        block = rows[start : start + size]
        filled = np.concatenate([block, np.repeat(block[-1:], size - len(block), axis=0)])
        blocks.append(np.asarray(function(filled.astype(np.float32)), np.float64)[: len(block)])
    return np.concatenate(blocks)


def _weights(particles, weights):
    n = len(jax.tree.leaves(particles)[0])
    return jnp.full(n, 1 / n) if weights is None else jnp.asarray(weights)
