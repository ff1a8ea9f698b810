"""Coordinates in which SVGD works: a change of metric is one object, not a second algorithm.

SVGD is not invariant to the scale and correlation of its problem; the coordinates of the cloud itself make it so. A
metric builds a `Frame` from the particles: u = L^-1 (x - c), in which scores are L' s and moves go back as L u.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.typing import Array, Particles, Scores


class Frame(eqx.Module):
    """The affine coordinates u = L^-1 (x - c); L is a lower-triangular matrix, a vector (its diagonal), or 1."""

    center: Array
    factor: Array

    def points(self, particles: Particles) -> Particles:
        """Return the particles in these coordinates."""
        deviations = particles - self.center
        if self.factor.ndim < 2:
            return deviations / self.factor
        return jax.scipy.linalg.solve_triangular(self.factor, deviations.T, lower=True).T

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
        return Frame(jnp.zeros_like(particles[0]), jnp.ones((), particles.dtype))
