"""Frames: affine coordinates, as a metric builds them from the particles and as a walk learns them on its way."""

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.devices import triangular
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


class Stretched(eqx.Module):
    r"""The coordinates $L = D\, (I + Q\, (\Lambda - I)\, Q^\top)$: scales D, and what is stretched beside these.

    Attributes:
        scaled: the frame of D alone, with the center.
        axes: Q, a few orthonormal columns.
        stretch: by how much each of them is stretched, the diagonal of $\Lambda$.
        variances: the diagonal of $L L^\top$.
    """

    scaled: Frame
    axes: Array
    stretch: Array
    variances: Array

    @property
    def center(self) -> Array:
        """Where the coordinates are zero."""
        return self.scaled.center

    def points(self, particles: Particles) -> Particles:
        """Return the particles in these coordinates."""
        return self._within(self.scaled.points(particles), 1 / self.stretch)

    def scores(self, scores: Scores) -> Scores:
        """Return the gradient of the log density with respect to u."""
        return self._within(self.scaled.scores(scores), self.stretch)

    def moves(self, moves: Array) -> Array:
        """Return moves of u as moves of x."""
        return self.scaled.moves(self._within(moves, self.stretch))

    def _within(self, rows, stretch):
        return rows + (rows @ self.axes * (stretch - 1)) @ self.axes.T


def frame_of(center: Array, spread: Array) -> Frame:
    """Return the coordinates in which this spread is the identity: a matrix, a vector of variances, or 1."""
    if spread.ndim < 2:
        return Frame(center, jnp.sqrt(spread), jax.lax.rsqrt(spread))
    sds = jnp.sqrt(jnp.diag(spread))  # scales, however far apart, are taken out first
    factor = jnp.linalg.cholesky(spread / sds[:, None] / sds)
    return Frame(center, sds[:, None] * factor, triangular.inverse(factor) / sds)
