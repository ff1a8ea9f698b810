r"""Mixtures of Gaussians with known moments and exact draws.

The default is the paper's toy, $\frac13 N(-2, 1) + \frac23 N(2, 1)$.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.devices.arrays import as_array
from steinflow.targets.base import Target
from steinflow.typing import Array, Point, PRNGKeyArray, Scalar


def _vector(values) -> Array:
    return as_array(values, float)


def _matrix(values) -> Array:
    values = _vector(values)
    return values[:, None] if values.ndim == 1 else values


class GaussianMixture(Target):
    """A mixture of isotropic Gaussians in any dimension.

    Args:
        weights: of the components; they are normalised.
        means: one row per component, or one number each in one dimension.
        sds: one per component.
        start: mean and sd of the Gaussian from which starting particles are drawn; the paper starts far to the left.

    Raises:
        ValueError: if weights, means and sds differ in their number.
    """

    weights: Array = eqx.field(default=(1 / 3, 2 / 3), converter=lambda w: _vector(w) / jnp.sum(_vector(w)))
    means: Array = eqx.field(default=(-2.0, 2.0), converter=_matrix)
    sds: Array = eqx.field(default=(1.0, 1.0), converter=_vector)
    start: Array = eqx.field(default=(-10.0, 1.0), converter=_vector)

    def __check_init__(self):
        lengths = {"weights": self.weights.shape, "means": self.means.shape[:1], "sds": self.sds.shape}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"weights, means and sds need one entry per component; got shapes {lengths}.")

    @property
    def dim(self) -> int:
        """The dimension of a point."""
        return self.means.shape[1]

    def log_density(self, params, batch=None):
        squares = jnp.sum((params - self.means) ** 2, axis=1)
        logs = -0.5 * squares / self.sds**2 - self.dim * jnp.log(self.sds) + jnp.log(self.weights)
        return jax.nn.logsumexp(logs) - 0.5 * self.dim * jnp.log(2 * jnp.pi)

    def sample_prior(self, key: PRNGKeyArray) -> Point:
        mean, sd = self.start
        return mean + sd * jax.random.normal(key, (self.dim,))

    def sample(self, key: PRNGKeyArray) -> Point:
        """Draw one exact sample."""
        component_key, key = jax.random.split(key)
        k = jax.random.categorical(component_key, jnp.log(self.weights))
        return self.means[k] + self.sds[k] * jax.random.normal(key, (self.dim,))

    def mean(self) -> Point:
        """Return E x: 2/3 for the paper's mixture."""
        return self.weights @ self.means

    def second_moment(self) -> Point:
        """Return E x^2 of every coordinate: 5 for the paper's mixture."""
        return self.weights @ (self.means**2 + self.sds[:, None] ** 2)

    def cosine(self, frequency: Array, phase: Array) -> Scalar:
        r"""Return $E \cos(\omega'x + b) = \sum_k w_k e^{-\sigma_k^2 |\omega|^2 / 2} \cos(\omega'\mu_k + b)$."""
        frequency = jnp.reshape(frequency, (self.dim,))
        damping = jnp.exp(-0.5 * self.sds**2 * jnp.sum(frequency**2))
        return self.weights @ (damping * jnp.cos(self.means @ frequency + phase))
