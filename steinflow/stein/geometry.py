"""The geometry of a cloud of points: its mean and its shape, the distances between points, and even samples of them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from steinflow.typing import Array


def mean_and_shape(rows: Any, weights: Any = None) -> tuple[Any, Any]:
    r"""Return the mean of the rows and their deviations from it: $\bar x$ and $C X$ with $C = I - 11^\top / n$.

    Weights sum to 1. Here and below, arrays of NumPy give arrays of NumPy.
    """
    mean = rows.mean(axis=0) if weights is None else weights @ rows
    return mean, rows - mean


def squared_distances(x: Any, y: Any) -> Any:
    """Return |x_i - y_j|^2 for all rows of x (..., n, d) and y (..., m, d): (..., n, m), never negative.

    One matrix product, and no other pass over the pairs: (-2 x, 1, |x|^2) times (y, |y|^2, 1). Points near the mean of
    y lose the fewest digits.
    """
    center = y.mean(axis=-2, keepdims=True)
    x, y = x - center, y - center
    xp = x.__array_namespace__()
    x_squares, y_squares = (xp.sum(points**2, axis=-1, keepdims=True) for points in (x, y))
    left = xp.concatenate([-2 * x, xp.ones_like(x_squares), x_squares], axis=-1)
    right = xp.concatenate([y, y_squares, xp.ones_like(y_squares)], axis=-1)
    with jax.default_matmul_precision("highest"):
        return xp.maximum(left @ xp.swapaxes(right, -1, -2), 0.0)


def distinct_squares(x: Any, y: Any) -> Any:
    """Return `squared_distances`, zero where they are only rounding: points that coincide are no distance apart."""
    squares = squared_distances(x, y)
    sums = (x**2).sum(axis=-1)[..., :, None] + (y**2).sum(axis=-1)[..., None, :]
    return x.__array_namespace__().where(squares > 16 * jnp.finfo(sums.dtype).eps * sums, squares, 0.0)


def even_sample(num_particles: int, num_points: int, weights: Array | np.ndarray | None = None) -> np.ndarray:
    """Return the indices of about `num_points` particles that represent all of them with equal weights.

    Without weights they are spread evenly over the particles; where there are no more, all are taken. With weights a
    particle comes as often as its weight says, to within one (systematic resampling).
    """
    if weights is None:
        return np.arange(0, num_particles, -(-num_particles // num_points))
    cumulative = np.cumsum(np.asarray(weights, float))
    levels = (np.arange(num_points) + 0.5) / num_points * cumulative[-1]
    return np.minimum(np.searchsorted(cumulative, levels), num_particles - 1)
