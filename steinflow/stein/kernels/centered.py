r"""Kernels whose features are centred on the cloud: the mean score moves it, and the rest changes its shape.

With $m(x) = \frac1n \sum_j k(x_j, x)$, the mean of the kernel over the cloud, and $\bar m$, the mean of m,

$$k_c(x, y) = 1 + k(x, y) - m(x) - m(y) + \bar m.$$

At the cloud itself the Stein direction is that of k for scores without their mean, without its own mean, plus the
mean score: the pairs are computed once. The Stein matrix is that of k and two products: with $g$ the Stein operator
on m, $g(x) = m(x)\, s_x + \nabla m(x)$,

$$u_c(x, y) = u(x, y) + (1 + \bar m)\, s_x^\top s_y - g(x)^\top s_y - s_x^\top g(y).$$
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from steinflow.stein.blocks import pairs_by_blocks
from steinflow.stein.geometry import mean_and_shape
from steinflow.stein.kernels.base import Kernel, all_pairs, as_kernel
from steinflow.typing import Array, Particles, Scalar


class Center(eqx.Module):
    """The points on which features are centred, and the mean of the kernel over all pairs of them."""

    particles: Particles
    level: Scalar


class Centered(Kernel):
    r"""$1 + \langle \psi(x) - \bar\psi,\, \psi(y) - \bar\psi \rangle$: features centred on the cloud, plus 1.

    It splits the Stein direction in two: the mean score moves the cloud as a whole, and what is left, which sums to
    zero, changes its shape. At its fixed point the mean score is exactly zero. The noise of a minibatch, nearly the
    same for all particles, moves the cloud and leaves its shape alone. Inside, a kernel need only be positive definite
    on differences, as `Multiquadric` is.
    """

    kernel: Kernel = eqx.field(converter=as_kernel)
    center: Center | None = None

    def __call__(self, x, y):
        center = self._fixed_center()

        def mean(point):
            return jnp.mean(jax.vmap(self.kernel, in_axes=(0, None))(center.particles, point))

        return 1 + self.kernel(x, y) - mean(x) - mean(y) + center.level

    def adapt(self, particles):
        if self.center is not None:
            return self
        particles = jax.lax.stop_gradient(particles)
        kernel = self.kernel.adapt(particles)
        level = jnp.mean(_means_and_gradients(kernel, particles, particles)[0])
        return Centered(kernel, Center(particles, level))

    def matrix(self, x, y):
        center = self._fixed_center()
        (mx, _), (my, _) = (_means_and_gradients(self.kernel, center.particles, points) for points in (x, y))
        return 1 + self.kernel.matrix(x, y) - mx[:, None] - my + center.level

    def direction(self, particles, scores, at=None, *, pairs=all_pairs):
        if self.center is not None:
            return self._direction_on_center(self.center, particles, scores, at, pairs)
        mean_score, shape = mean_and_shape(scores)
        mean_move, moves = mean_and_shape(self.kernel.direction(particles, shape, pairs=pairs))
        if at is not None:
            moves = self.kernel.direction(particles, shape, at, pairs=pairs) - mean_move
        return mean_score + moves

    def _direction_on_center(self, center, particles, scores, at, pairs):
        """The same where the kernel is centred on a cloud of its own, which need not be that of the particles."""
        at = particles if at is None else at
        moves = self.kernel.direction(particles, scores, at, pairs=pairs)
        within = self.kernel.direction(particles, scores, center.particles, pairs=pairs)
        means, _ = _means_and_gradients(self.kernel, center.particles, at)
        mean_score = jnp.mean(scores, axis=0)
        return moves - jnp.mean(within, axis=0) + (1 + center.level - means[:, None]) * mean_score

    def stein_rows(self, points, scores):
        center = self._fixed_center()
        means, gradients = _means_and_gradients(self.kernel, center.particles, points)
        operated = (means - (1 + center.level) / 2)[:, None] * scores + gradients  # half of the level on either side
        return self.kernel.stein_rows(points, scores), scores, operated

    def stein_matrix(self, x, y):
        (x, sx, gx), (y, sy, gy) = x, y
        return self.kernel.stein_matrix(x, y) - gx @ sy.T - sx @ gy.T

    def _fixed_center(self) -> Center:
        if self.center is None:
            raise ValueError("This Centered kernel has no cloud yet: call kernel.adapt(particles) first.")
        return self.center


def _means_and_gradients(kernel: Kernel, particles: Particles, points: Particles) -> tuple[Array, Array]:
    """Return m(x), the mean of k(x_j, x) over the particles, and its gradient, for every x in points."""

    def rows(shared, points):
        kernel, particles = shared
        means, pull = jax.vjp(lambda points: jnp.mean(kernel.matrix(points, particles), axis=1), points)
        (gradients,) = pull(jnp.ones_like(means))
        return means, gradients

    return pairs_by_blocks(rows, (kernel, particles), points, len(particles))
