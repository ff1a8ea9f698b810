"""The linear kernel, which sees means and covariances and needs no sum over pairs."""

from typing import Literal

import jax
import jax.numpy as jnp

from steinflow.stein.geometry import mean_and_shape
from steinflow.stein.kernels.base import Kernel, all_pairs
from steinflow.typing import Array, Particles


class Linear(Kernel):
    r"""$k(x, y) = 1 + (x - c)^\top C^{-1} (y - c)$, with c and C the mean and covariance of the cloud.

    At its fixed point the particles satisfy Stein's identity for linear functions, which on a Gaussian target
    makes their mean and covariance exact. `covariance="full"` needs more particles than dimensions to mean much;
    `"diagonal"` always works.

    Raises:
        ValueError: if `covariance` is neither "diagonal" nor "full".
    """

    covariance: Literal["diagonal", "full"] = "diagonal"
    center: Array | None = None
    precision: Array | None = None

    def __check_init__(self):
        if self.covariance not in ("diagonal", "full"):
            raise ValueError(f"Linear(covariance=...) must be 'diagonal' or 'full'; got {self.covariance!r}.")

    def __call__(self, x, y):
        return 1 + self.deviations(x) @ self.precise(self.deviations(y))

    def deviations(self, points: Array) -> Array:
        """Return x - c for a point, or for every row.

        Raises:
            ValueError: if the kernel is not adapted.
        """
        if self.center is None:
            raise ValueError("This Linear kernel has no centre yet: call kernel.adapt(particles) first.")
        return points - self.center

    def precise(self, vectors: Array) -> Array:
        """Return C^-1 v for a vector, or for every row.

        Raises:
            ValueError: if the kernel is not adapted.
        """
        if self.precision is None:
            raise ValueError("This Linear kernel has no covariance yet: call kernel.adapt(particles) first.")
        return vectors * self.precision if self.covariance == "diagonal" else vectors @ self.precision

    def adapt(self, particles: Particles) -> "Linear":
        if self.center is not None and self.precision is not None:
            return self
        center, deviations = mean_and_shape(jax.lax.stop_gradient(particles))
        variances = jnp.mean(deviations**2, axis=0)
        # Directions without spread, up to the rounding of the mean, get no weight: only the constant 1 is left there.
        spread = jnp.sqrt(variances) > 16 * jnp.finfo(center.dtype).eps * jnp.abs(center)
        if self.covariance == "diagonal":
            precision = jnp.where(spread, 1 / jnp.where(spread, variances, 1.0), 0.0)
        else:
            deviations = jnp.where(spread, deviations, 0.0)
            precision = jnp.linalg.pinv(deviations.T @ deviations / len(particles), hermitian=True)
        return Linear(self.covariance, center, precision)

    def matrix(self, x, y):
        return 1 + self.precise(self.deviations(x)) @ self.deviations(y).T

    def direction(self, particles, scores, at=None, *, pairs=all_pairs):
        kernel = self.adapt(particles)
        v = kernel.precise(kernel.deviations(particles if at is None else at))
        covariance = scores.T @ kernel.deviations(particles) / len(particles)
        return jnp.mean(scores, axis=0) + v @ covariance.T + v

    def stein_matrix(self, x, y):
        (x, sx), (y, sy) = x, y
        vx, vy = self.precise(self.deviations(x)), self.precise(self.deviations(y))
        trace = jnp.sum(jnp.diagonal(self.precise(jnp.eye(x.shape[1], dtype=x.dtype))))
        drift_x, drift_y = jnp.sum(sx * vx, axis=1), jnp.sum(sy * vy, axis=1)
        return self.matrix(x, y) * (sx @ sy.T) + (drift_x[:, None] + drift_y + trace)
