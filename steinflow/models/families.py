"""Families of likelihoods: what the outputs of a model say about y. Any model takes any family."""

import abc
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special
from jaxtyping import ArrayLike

from steinflow.devices.arrays import as_array
from steinflow.targets.forecasts import calibration_of_classes, calibration_of_positions
from steinflow.typing import Array, PRNGKeyArray, Scalar


class Family(eqx.Module):
    """The distribution of y given the outputs of a model, which are real numbers without constraints.

    To add one: say how y is checked and encoded, its log density for every row, its mean and variance, and how it is
    drawn.
    A family with `noisy = True` gets a precision gamma, with a Gamma prior.
    """

    noisy: ClassVar[bool] = False
    real_valued: ClassVar[bool] = False  # y may be shifted and scaled

    @property
    def num_outputs(self) -> int:
        """How many outputs a row has; with one, outputs have no second axis."""
        return 1

    @abc.abstractmethod
    def encode(self, y: ArrayLike) -> Array:
        """Check the user's y and return it as `log_density` wants it.

        Raises:
            ValueError: if the family does not take such values.
        """

    @abc.abstractmethod
    def log_density(self, outputs: Array, y: Array, log_gamma: Scalar | None) -> Array:
        """Return log p(y | outputs) for every row."""

    def climbed_log_density(self, outputs: Array, y: Array, log_gamma: Scalar | None) -> Array:
        """Return what optimisers climb for every row on their way: the log density, where that leads to good fits."""
        return self.log_density(outputs, y, log_gamma)

    @abc.abstractmethod
    def mean(self, outputs: Array) -> Array:
        """Return E[y | outputs], or the probabilities of the classes."""

    @abc.abstractmethod
    def sample(self, key: PRNGKeyArray, outputs: Array, log_gamma: Scalar | None) -> Array:
        """Draw an encoded y for every row."""

    @abc.abstractmethod
    def variance(self, outputs: Array, log_gamma: Scalar | None) -> Array:
        """Return Var[y | outputs]; of classes, that of the indicator of each."""

    def forecasts(self, outputs: Array, y: Array, log_gamma: Scalar | None) -> Array | None:
        """Return where y lies in its distribution, from 0 to 1, as one column; of classes, their probabilities.

        None, where nothing is known, leaves calibration out of verdicts.
        """
        return None

    def calibration(self, forecasts: np.ndarray, y: np.ndarray) -> dict[str, float]:
        """Return how well means of forecasts were kept by encoded y."""
        return calibration_of_positions(forecasts[:, 0])

    def numbers(self, y: Array) -> Array:
        """Return encoded y as the numbers whose means `mean` returns: of classes, their indicators."""
        return y

    def usual_outputs(self, y: np.ndarray) -> np.ndarray:
        """Return the outputs at which the mean is that of encoded y: where an intercept is to be expected."""
        return np.zeros(self.num_outputs)

    def in_units(self, outputs: Array, shift: Array, scale: Array) -> Array:
        """Return the outputs for y of another unit: those of shift + scale * y, where y is real."""
        return outputs * scale + shift if self.real_valued else outputs

    def metrics(self, mean: Array, y: Array) -> dict[str, Scalar]:
        """Return how good the predicted means are for encoded y."""
        return {"rmse": jnp.sqrt(jnp.mean((mean - y) ** 2))}


class Gaussian(Family):
    r"""$y \sim N(f, 1/\gamma)$, with $\gamma$ inferred."""

    noisy: ClassVar[bool] = True
    real_valued: ClassVar[bool] = True

    def encode(self, y):
        return as_array(_finite(y), float)

    def log_density(self, outputs, y, log_gamma):
        assert log_gamma is not None
        return 0.5 * (log_gamma - jnp.log(2 * jnp.pi)) - 0.5 * jnp.exp(log_gamma) * (y - outputs) ** 2

    def mean(self, outputs):
        return outputs

    def variance(self, outputs, log_gamma):
        assert log_gamma is not None
        return jnp.broadcast_to(jnp.exp(-log_gamma), outputs.shape)

    def forecasts(self, outputs, y, log_gamma):
        assert log_gamma is not None
        return special.ndtr(jnp.exp(0.5 * log_gamma) * (y - outputs))[:, None]

    def sample(self, key, outputs, log_gamma):
        assert log_gamma is not None
        return outputs + jnp.exp(-0.5 * log_gamma) * jax.random.normal(key, outputs.shape)


class Bernoulli(Family):
    r"""Two classes: $P(y = 1) = \sigma(f)$. Labels are 0 and 1, or -1 and 1."""

    def encode(self, y):
        labels = set(np.unique(_finite(y)).tolist())
        if not (labels <= {0, 1} or labels <= {-1, 1}):
            raise ValueError(
                f"With two classes, the labels must be 0 and 1, or -1 and 1; got {_shown(labels)}. "
                "For more classes pass num_classes, or the family Categorical(num_classes)."
            )
        return as_array(np.where(np.asarray(y) > 0, 1.0, -1.0))

    def log_density(self, outputs, y, log_gamma):
        return _log_sigmoid(y * outputs)

    def mean(self, outputs):
        return jax.nn.sigmoid(outputs)

    def variance(self, outputs, log_gamma):
        return jax.nn.sigmoid(outputs) * jax.nn.sigmoid(-outputs)

    def forecasts(self, outputs, y, log_gamma):
        return jax.nn.sigmoid(jnp.stack([-outputs, outputs], axis=1))

    def calibration(self, forecasts, y):
        return calibration_of_classes(forecasts, y > 0)

    def numbers(self, y):
        return (y + 1) / 2

    def usual_outputs(self, y):
        share = (np.sum(y > 0) + 0.5) / (len(y) + 1)
        return np.log([share / (1 - share)])

    def sample(self, key, outputs, log_gamma):
        return jnp.where(jax.random.bernoulli(key, jax.nn.sigmoid(outputs)), 1.0, -1.0)

    def metrics(self, mean, y):
        return {"accuracy": jnp.mean(jnp.where(y > 0, mean > 0.5, mean < 0.5))}


class Categorical(Family):
    """K classes by a softmax of K outputs; labels are 0 .. K-1.

    Raises:
        ValueError: if there are less than two classes.
    """

    num_classes: int

    def __check_init__(self):
        if self.num_classes < 2:
            raise ValueError(f"Categorical needs at least 2 classes; got {self.num_classes}.")

    @property
    def num_outputs(self):
        return self.num_classes

    def encode(self, y):
        labels = set(np.unique(_finite(y)).tolist())
        if not labels <= set(range(self.num_classes)):
            raise ValueError(
                f"With {self.num_classes} classes, labels must be 0 .. {self.num_classes - 1}; got {_shown(labels)}."
            )
        return as_array(y, int)

    def log_density(self, outputs, y, log_gamma):
        return jnp.take_along_axis(jax.nn.log_softmax(outputs), y[:, None], axis=1)[:, 0]

    def mean(self, outputs):
        return jax.nn.softmax(outputs)

    def variance(self, outputs, log_gamma):
        probabilities = jax.nn.softmax(outputs)
        return probabilities * (1 - probabilities)

    def forecasts(self, outputs, y, log_gamma):
        return jax.nn.softmax(outputs)

    def calibration(self, forecasts, y):
        return calibration_of_classes(forecasts, y)

    def usual_outputs(self, y):
        shares = np.bincount(y, minlength=self.num_classes) + 0.5
        return np.log(shares / np.exp(np.mean(np.log(shares))))  # outputs that add up to zero

    def numbers(self, y):
        return jax.nn.one_hot(y, self.num_classes)

    def sample(self, key, outputs, log_gamma):
        return jax.random.categorical(key, outputs)

    def metrics(self, mean, y):
        return {"accuracy": jnp.mean(jnp.argmax(mean, axis=1) == y)}


class Poisson(Family):
    """Counts, with mean exp(f)."""

    def encode(self, y):
        counts = np.asarray(_finite(y))
        if np.any(counts < 0) or np.any(counts != np.round(counts)):
            raise ValueError("Poisson regression needs counts: 0, 1, 2, ...; got negative or fractional values.")
        return as_array(y, float)

    def log_density(self, outputs, y, log_gamma):
        return y * outputs - jnp.exp(outputs) - jax.scipy.special.gammaln(y + 1)

    def mean(self, outputs):
        return jnp.exp(outputs)

    def variance(self, outputs, log_gamma):
        return jnp.exp(outputs)

    def forecasts(self, outputs, y, log_gamma):
        mean = jnp.exp(outputs)
        below = special.gammaincc(y + 1, mean)  # P(Y <= y)
        return (below - 0.5 * jnp.exp(self.log_density(outputs, y, log_gamma)))[:, None]  # halfway up its jump

    def usual_outputs(self, y):
        return np.log(np.array([max(np.mean(y), 0.5 / len(y))]))

    def sample(self, key, outputs, log_gamma):
        return jax.random.poisson(key, jnp.exp(outputs))


@jax.custom_jvp
def _log_sigmoid(x):
    return jax.nn.log_sigmoid(x)


@_log_sigmoid.defjvp
def _log_sigmoid_jvp(primals, tangents):
    """The derivative is the sigmoid; that of JAX goes through the logarithm again and takes twice as long."""
    (x,), (dx,) = primals, tangents
    return _log_sigmoid(x), jax.nn.sigmoid(-x) * dx


def _finite(y):
    y = np.asarray(y)
    if not np.all(np.isfinite(y)):
        raise ValueError("y has missing or infinite values; drop those rows.")
    return y


def _shown(labels):
    some = ", ".join(str(label) for label in sorted(labels)[:8])
    return f"{some}, ... ({len(labels)} values)" if len(labels) > 8 else some
