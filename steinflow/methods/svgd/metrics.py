"""Coordinates in which SVGD works: a change of metric is one object, not a second algorithm.

SVGD is not invariant to the scale and correlation of its problem; the coordinates of the cloud itself make it so. A
metric builds a `Frame` from the particles: u = L^-1 (x - c), in which scores are L' s and moves go back as L u.
"""

import abc

import equinox as eqx
import jax.numpy as jnp

from steinflow.methods.svgd.coordinates import Coordinates, Fixed, LowRank, Whole
from steinflow.methods.svgd.frames import Frame, frame_of
from steinflow.stein.geometry import mean_and_shape
from steinflow.typing import Particles

_SHRUNK = 0.1  # of d / n, squared: how much the correlations of a cloud are shrunk


class Metric(eqx.Module):
    """A rule for the frame. To add one, say how it follows from the particles, and from a walk if it learns there."""

    @abc.abstractmethod
    def frame(self, particles: Particles) -> Frame:
        """Return the coordinates for this cloud."""

    def coordinates(self, particles: Particles) -> Coordinates:
        """Return those of a walk that such particles have yet to begin; they stay as they are at its beginning."""
        return Fixed(self.frame(particles))


class Euclidean(Metric):
    """The coordinates as they are: the paper's choice."""

    def frame(self, particles):
        one = jnp.ones((), particles.dtype)
        return Frame(jnp.zeros_like(particles[0]), one, one)


class Cloud(Metric):
    """The coordinates in which the cloud has mean 0 and covariance I: scale and correlation of the problem drop out.

    The covariance is that of the particles, its correlations shrunk a little, by `(d / 10n)^2`. Cost: O(n d^2 + d^3) a
    step. With fewer particles than dimensions, where the covariance of one cloud is singular, and beyond `max_dim`
    dimensions only the variances are used: O(n d). Coordinates without any spread, such as those of one particle, stay
    as they are. Particles that explore learn correlations with fewer particles too, and beyond `max_dim` dimensions
    those in the directions that 400 states span.

    Args:
        max_dim: up to here matrices of all correlations are used.
    """

    max_dim: int = 1024

    def frame(self, particles):
        (num_particles, dim), (center, deviations) = particles.shape, mean_and_shape(particles)
        variances = jnp.mean(deviations**2, axis=0)
        variances = jnp.where(variances > 0, variances, 1.0)
        if num_particles < dim or dim == 1 or dim > self.max_dim:
            return frame_of(center, variances)
        sds = jnp.sqrt(variances)
        standardized = deviations / sds
        correlations = standardized.T @ standardized / num_particles
        shrinkage = shrinkage_of(num_particles, dim, float(jnp.finfo(particles.dtype).eps))
        shrunk = (1 - shrinkage) * correlations + shrinkage * jnp.eye(dim, dtype=particles.dtype)
        return frame_of(center, sds[:, None] * shrunk * sds)

    def coordinates(self, particles):
        return (Whole if particles.shape[1] <= self.max_dim else LowRank).unknown(particles)


def shrinkage_of(num_particles: int, dim: int, eps: float) -> float:
    """Return how much the correlations of so many particles are shrunk, in a precision of eps."""
    floor = 10 * dim * eps  # keeps the Cholesky factor finite where particles lie in a plane
    return min(max((_SHRUNK * dim / num_particles) ** 2, floor), 1.0)
