"""Coordinates in which SVGD works: a change of metric is one object, not a second algorithm.

SVGD is not invariant to the scale and correlation of its problem; the coordinates of the cloud itself make it so. A
metric builds a `Frame` from the particles: u = L^-1 (x - c), in which scores are L' s and moves go back as L u.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.devices import triangular
from steinflow.stein.geometry import mean_and_shape
from steinflow.typing import Array, Particles, Scores


class Frame(eqx.Module):
    """The affine coordinates u = L^-1 (x - c); L is a matrix, a vector (its diagonal), or 1."""

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
    """A rule for the frame. To add one, say how spread and frame follow from the particles."""

    @abc.abstractmethod
    def spread(self, rows: Array) -> Array:
        """Return what the metric sees of a covariance: a matrix, a vector of variances, or 1."""

    @abc.abstractmethod
    def frame(self, particles: Particles) -> Frame:
        """Return the coordinates for this cloud."""


class Euclidean(Metric):
    """The coordinates as they are: the paper's choice."""

    def spread(self, rows):
        return jnp.ones((), rows.dtype)

    def frame(self, particles):
        one = jnp.ones((), particles.dtype)
        return Frame(jnp.zeros_like(particles[0]), one, one)


class Cloud(Metric):
    """The coordinates in which the cloud has mean 0 and covariance I: scale and correlation of the problem drop out.

    The covariance is that of the particles, its correlations shrunk a little, by `(d / 10n)^2`. Cost: O(n d^2 + d^3) a
    step. With fewer particles than dimensions, where the covariance of one cloud is singular (that of a trajectory, to
    which `spread` contributes, is not), and beyond `max_dim` dimensions only the variances are used: O(n d).
    Coordinates without any spread, such as those of one particle, stay as they are.

    Args:
        max_dim: up to here correlations count, beyond only variances.
    """

    max_dim: int = 512

    def spread(self, rows):
        _, deviations = mean_and_shape(rows)
        if self._sees_variances_only(rows):
            return jnp.mean(deviations**2, axis=0)
        return deviations.T @ deviations / len(rows)

    def frame(self, particles):
        (num_particles, dim), (center, deviations) = particles.shape, mean_and_shape(particles)
        variances = jnp.mean(deviations**2, axis=0)
        variances = jnp.where(variances > 0, variances, 1.0)
        if num_particles < dim or self._sees_variances_only(particles):
            return frame_of(center, variances)
        sds = jnp.sqrt(variances)
        standardized = deviations / sds
        correlations = standardized.T @ standardized / num_particles
        # The floor keeps the Cholesky factor finite where particles lie in a plane.
        floor = 10 * dim * jnp.finfo(particles.dtype).eps
        shrinkage = min(max((dim / (10 * num_particles)) ** 2, floor), 1.0)
        shrunk = (1 - shrinkage) * correlations + shrinkage * jnp.eye(dim, dtype=particles.dtype)
        return frame_of(center, sds[:, None] * shrunk * sds)

    def _sees_variances_only(self, rows):
        return rows.shape[1] == 1 or rows.shape[1] > self.max_dim


def frame_of(center: Array, spread: Array) -> Frame:
    """Return the coordinates in which this spread is the identity: a matrix, a vector of variances, or 1."""
    if spread.ndim < 2:
        return Frame(center, jnp.sqrt(spread), jax.lax.rsqrt(spread))
    sds = jnp.sqrt(jnp.diag(spread))  # scales, however far apart, are taken out first
    factor = jnp.linalg.cholesky(spread / sds[:, None] / sds)
    return Frame(center, sds[:, None] * factor, triangular.inverse(factor) / sds)
