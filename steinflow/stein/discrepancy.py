r"""The kernelized Stein discrepancy (Liu, Lee & Jordan 2016): the squared RKHS norm of the Stein direction.

$$\mathrm{KSD}^2 = \frac1{n^2} \sum_{ij} u_p(x_i, x_j), \qquad
u_p(x, y) = s(x)^\top k\, s(y) + s(x)^\top \nabla_y k + \nabla_x k^\top s(y) + \mathrm{tr}\,\nabla_x \nabla_y k$$

is the rate at which the Stein direction lowers KL(q || p). Each kernel brings its own form of the Stein kernel $u_p$:
`kernels/base.py` the definition by autodiff, the others closed forms.
"""

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from steinflow.stein.blocks import pairs_by_blocks
from steinflow.stein.geometry import mean_and_shape
from steinflow.stein.kernels import Kernel, positive_definite
from steinflow.typing import Array, Particles, Point, Scalar, Scores


def ksd_squared(
    particles: Particles,
    scores: Scores,
    kernel: Kernel | Callable[[Point, Point], Scalar],
    statistic: Literal["V", "U"] = "V",
    weights: Array | None = None,
) -> Scalar:
    r"""Return the squared kernelized Stein discrepancy, $\sum_{ij} w_i w_j u_p(x_i, x_j)$.

    The V statistic is the squared RKHS norm of the Stein direction, never negative, and biased upwards at finite n. The
    U statistic leaves out i = j: unbiased, it may be negative.

    Args:
        particles: the x_i.
        scores: the gradient of log p at each of them.
        kernel: a kernel, or a function k(x, y); it follows the particles unless it is adapted already.
        statistic: "V" or "U".
        weights: the w_i, which sum to 1; equal if not given.

    Raises:
        ValueError: if the statistic is neither, U is asked for of one particle, or the kernel is not positive definite.
        TypeError: if it is no kernel.
    """
    n = len(particles)
    if statistic not in ("U", "V"):
        raise ValueError(f"statistic must be 'U' or 'V'; got {statistic!r}.")
    if statistic == "U" and n == 1:
        raise ValueError("The U statistic is a mean over pairs of particles: it needs at least two.")
    weights = jnp.full(n, 1 / n, particles.dtype) if weights is None else jnp.asarray(weights, particles.dtype)
    kernel = positive_definite(kernel).adapt(particles)

    def sums(shared, indices):
        kernel, points, weights = shared
        matrix = _rows(kernel, points, indices)
        return matrix @ weights, jnp.take_along_axis(matrix, indices[:, None], axis=1)[:, 0]

    shared = kernel, kernel.stein_rows(particles, scores), weights
    means, own = pairs_by_blocks(sums, shared, jnp.arange(n), n)
    if statistic == "V":
        return jnp.maximum(weights @ means, 0.0)
    return (weights @ means - weights**2 @ own) / (1 - jnp.sum(weights**2))


def stein_kernel_rows(
    particles: Particles, scores: Scores, kernel: Kernel | Callable[[Point, Point], Scalar]
) -> Callable[[Array], Array]:
    """Return the function that gives the rows u_p(x_i, .) of the Stein matrix for given indices i.

    Raises:
        ValueError: if the kernel is not positive definite.
        TypeError: if it is no kernel.
    """
    kernel = positive_definite(kernel).adapt(particles)
    points = kernel.stein_rows(particles, scores)
    return lambda indices: _rows(kernel, points, indices)


def dispersion_of(particles: Any, scores: Any, weights: Any = None) -> Any:
    r"""Return the dispersion, $R_k = -\sum_i w_i (x_{ik} - \bar x_k) s_{ik}$, as an array of the kind of the points."""
    _, deviations = mean_and_shape(particles, weights)
    return -(deviations * scores).mean(axis=0) if weights is None else -((deviations * scores).T @ weights)


def imq_stein_matrix(x: np.ndarray, sx: np.ndarray, y: np.ndarray, sy: np.ndarray, bandwidth: float) -> np.ndarray:
    """Return u_p(x_i, y_j) of $(1 + |x - y|^2 / h)^{-1/2}$ for points with known scores, in NumPy.

    It is for points on the host, for which the kernel of `kernels/` would have to be compiled.
    """
    dim, ones_x, ones_y = x.shape[1], np.ones_like(x[:, :1]), np.ones_like(y[:, :1])
    squares_x, squares_y = (np.sum(each**2, axis=1, keepdims=True) for each in (x, y))
    along_x, along_y = np.sum(x * sx, axis=1, keepdims=True), np.sum(y * sy, axis=1, keepdims=True)
    # t = |x - y|^2 / h and ((x - y)'(sx - sy) + d - 3) / h, each by one product, and the rest in place: what takes time
    # is passes over all pairs, most of all those that make new arrays. Of the profile f(t), base is f^2; f' = -f^3 / 2
    # and f'' = 3 f^5 / 4.
    base = np.hstack([-2 * x, squares_x, ones_x]) @ (np.hstack([y, ones_y, squares_y]) / bandwidth).T
    np.maximum(base, 0.0, out=base)
    np.reciprocal(base + 1, out=base)
    matrix = np.hstack([sx, x, along_x + dim - 3, ones_x]) @ (np.hstack([-y, -sy, ones_y, along_y]) / bandwidth).T
    matrix += 3 / bandwidth * base
    matrix *= base
    matrix += sx @ sy.T
    matrix *= np.sqrt(base, out=base)
    return matrix


def _rows(kernel, points, indices):
    return kernel.stein_matrix(jax.tree.map(lambda leaf: leaf[indices], points), points)
