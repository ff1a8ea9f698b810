"""Coordinates in which SVGD works: a change of metric is one object, not a second algorithm.

SVGD is not invariant to the scale and correlation of its problem; the coordinates of the cloud itself make it so. A
metric builds a `Frame` from the particles: u = L^-1 (x - c), in which scores are L' s and moves go back as L u.
"""

import abc

import equinox as eqx
import jax.numpy as jnp

from steinflow.devices import triangular
from steinflow.typing import Array, Particles, Scores


class Frame(eqx.Module):
    """The affine coordinates u = L^-1 (x - c); L is a lower-triangular matrix, a vector (its diagonal), or 1."""

    center: Array
    factor: Array
    inverse: Array

    def points(self, particles: Particles) -> Particles:
        """Return the particles in these coordinates."""
        deviations = particles - self.center
        return deviations * self.inverse if self.factor.ndim < 2 else deviations @ self.inverse.T

    def scores(self, scores: Scores) -> Scores:
        """Return the gradient of the log density with respect to u."""
        return scores * self.factor if self.factor.ndim < 2 else scores @ self.factor

    def moves(self, moves: Array) -> Array:
        """Return moves of u as moves of x."""
        return moves * self.factor if self.factor.ndim < 2 else moves @ self.factor.T


class Metric(eqx.Module):
    """A rule for the frame. To add one, say how it follows from the particles."""

    @abc.abstractmethod
    def frame(self, particles: Particles) -> Frame:
        """Return the coordinates for this cloud."""


class Euclidean(Metric):
    """The coordinates as they are: the paper's choice."""

    def frame(self, particles):
        one = jnp.ones((), particles.dtype)
        return Frame(jnp.zeros_like(particles[0]), one, one)


class Cloud(Metric):
    """The coordinates in which the cloud has mean 0 and covariance I: scale and correlation of the problem drop out.

    The covariance is that of the particles, its correlations shrunk a little, by `(d / 10n)^2`. Cost: O(n d^2 + d^3) a
    step. With fewer particles than dimensions, where the covariance is singular, and beyond `max_dim` dimensions only
    the variances are used: O(n d). Coordinates without any spread, such as those of one particle, stay as they are.

    Args:
        max_dim: up to here correlations count, beyond only variances.
    """

    max_dim: int = 512

    def frame(self, particles):
        num_particles, dim = particles.shape
        center = jnp.mean(particles, axis=0)
        deviations = particles - center
        variances = jnp.mean(deviations**2, axis=0)
        sds = jnp.where(variances > 0, jnp.sqrt(variances), 1.0)
        if dim == 1 or dim > min(self.max_dim, num_particles):
            return Frame(center, sds, 1 / sds)
        standardized = deviations / sds
        correlations = standardized.T @ standardized / num_particles
        # The floor keeps the Cholesky factor finite where particles lie in a plane.
        shrinkage = max((dim / (10 * num_particles)) ** 2, 10 * dim * jnp.finfo(particles.dtype).eps)
        identity = jnp.eye(dim, dtype=particles.dtype)
        factor = jnp.linalg.cholesky((1 - shrinkage) * correlations + shrinkage * identity)
        return Frame(center, sds[:, None] * factor, triangular.inverse(factor) / sds)
