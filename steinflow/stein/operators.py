r"""The heart: Stein's operator, the Stein direction and the kernelized Stein discrepancy.

With the score $s = \nabla \log p$ and a kernel k (Liu & Wang 2016, equations 4 to 8):

$$\phi(x) = \frac1n \sum_j \bigl[ k(x_j, x)\, s(x_j) + \nabla_{x_j} k(x_j, x) \bigr]$$

moves particles towards p fastest among all directions of unit RKHS norm, and

$$\mathrm{KSD}^2 = \frac1{n^2} \sum_{ij} u_p(x_i, x_j), \qquad
u_p(x, y) = s(x)^\top k\, s(y) + s(x)^\top \nabla_y k + \nabla_x k^\top s(y) + \mathrm{tr}\,\nabla_x \nabla_y k$$

is the rate at which it lowers KL(q || p). Inside, kernels are adapted: plain functions of two points.

A radial kernel $f(r^2/h)$ needs no n x n x d array: with A = f and B = f' at all pairs,
$\phi(X) = (A S + \frac2h (B X - \mathrm{rowsum}(B)\, X)) / n$. Rows are taken in blocks, so memory stays
O(nd + block n).
"""

from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp

from steinflow.devices.sharding import split_particles
from steinflow.stein.kernels import Centered, Kernel, Linear, Radial, Scaled, Sum, as_kernel, check_definite
from steinflow.typing import Array, Direction, Particles, Point, Scalar, Scores

# A block is a few MB of pairs: large enough for the matrix product, small enough for the cache.
_UNBLOCKED_PAIRS = 2**22
_BLOCK_PAIRS = 2**24
_MIN_ROWS, _MAX_ROWS = 128, 512


def stein_operator(function: Callable[[Point], Array], score: Callable[[Point], Array]) -> Callable[[Point], Scalar]:
    r"""Return $x \mapsto s(x)^\top f(x) + \nabla \cdot f(x)$, whose mean under p is zero (Stein's identity).

    `function` maps a point to a vector of the same dimension; `score` maps a point to its score.
    """

    def operate(x):
        return score(x) @ function(x) + jnp.trace(jax.jacfwd(function)(x))

    return operate


def stein_direction(particles: Particles, scores: Scores, kernel: Kernel, at: Particles | None = None) -> Direction:
    r"""Return $\phi(x) = \frac1n \sum_j [k(x_j, x) s_j + \nabla_{x_j} k(x_j, x)]$ for every x in `at`.

    Args:
        particles: the x_j.
        scores: the gradient of log p at each of them.
        kernel: adapted to the particles here unless it already is.
        at: where to evaluate; the particles themselves if not given.
    """
    if jnp.shape(particles) != jnp.shape(scores) or jnp.ndim(particles) != 2:
        raise ValueError(
            "stein_direction needs particles and scores as matrices of one shape (n, d); "
            f"got {jnp.shape(particles)} and {jnp.shape(scores)}."
        )
    return _direction(particles, scores, as_kernel(kernel).adapt(particles), particles if at is None else at)


def _direction(particles, scores, kernel, at) -> Direction:
    match kernel:
        case Sum(terms):
            return sum((_direction(particles, scores, term, at) for term in terms), start=jnp.zeros_like(at))
        case Scaled(factor, term):
            return factor * _direction(particles, scores, term, at)
        case Centered():
            return _centered_direction(particles, scores, kernel, at)
        case Radial():
            return _radial_direction(particles, scores, kernel, at)
        case Linear():
            return _linear_direction(particles, scores, kernel, at)
        case _:
            return _autodiff_direction(particles, scores, kernel, at)


def _radial_direction(particles, scores, kernel, at):
    n, h = len(particles), kernel.bandwidth(particles)
    center = jnp.mean(particles, axis=0)  # distances lose fewer digits near the origin
    x, y = particles - center, at - center
    ones = jnp.ones((n, 1), x.dtype)
    if kernel.decay is not None:  # B = decay * A: one product gives everything
        right = jnp.concatenate([scores + (2 * kernel.decay / h) * x, ones], axis=1)

        def rows(shared, y):
            kernel, lifted, _, right, h = shared
            product = kernel.profile(_scaled_squares(y, lifted, h)) @ right
            return product[:, :-1] - (2 * kernel.decay / h) * product[:, -1:] * y
    else:
        right = jnp.concatenate([x, ones], axis=1)

        def rows(shared, y):
            kernel, lifted, scores, right, h = shared
            a, b = _with_derivative(kernel.profile, _scaled_squares(y, lifted, h))
            product = b @ right
            return a @ scores + (2 / h) * (product[:, :-1] - product[:, -1:] * y)

    return _by_blocks(rows, (kernel, _lifted(x, h), scores, right, h), y, n) / n


def _linear_direction(particles, scores, kernel, at):
    v = kernel.precise(kernel.deviations(at))
    covariance = scores.T @ kernel.deviations(particles) / len(particles)
    return jnp.mean(scores, axis=0) + v @ covariance.T + v


def _centered_direction(particles, scores, kernel, at):
    mean_score = jnp.mean(scores, axis=0)
    shape = _direction(particles, scores - mean_score, kernel.kernel, at)
    within = (
        shape if at is kernel.particles else _direction(particles, scores - mean_score, kernel.kernel, kernel.particles)
    )
    return mean_score + shape - jnp.mean(within, axis=0)


def _autodiff_direction(particles, scores, kernel, at):
    def rows(shared, at):
        particles, scores, kernel = shared

        def row(y):
            values, gradients = jax.vmap(jax.value_and_grad(kernel), in_axes=(0, None))(particles, y)
            return values @ scores + jnp.sum(gradients, axis=0)

        return jax.lax.map(row, at)

    return split_particles(rows, (particles, scores, kernel), at) / len(particles)


def ksd_squared(
    particles: Particles,
    scores: Scores,
    kernel: Kernel,
    statistic: Literal["V", "U"] = "V",
    weights: Array | None = None,
) -> Scalar:
    r"""Return the squared kernelized Stein discrepancy, $\sum_{ij} w_i w_j u_p(x_i, x_j)$.

    The V statistic is the squared RKHS norm of the Stein direction, never negative, and biased upwards at finite n. The
    U statistic leaves out i = j: unbiased, it may be negative.
    """
    n = len(particles)
    if statistic not in ("U", "V"):
        raise ValueError(f"statistic is 'U' or 'V'; got {statistic!r}.")
    if statistic == "U" and n == 1:
        raise ValueError("The U statistic is a mean over pairs of particles: it needs at least two.")
    weights = jnp.full(n, 1 / n, particles.dtype) if weights is None else weights
    kernel = as_kernel(kernel)
    check_definite(kernel)
    kernel = kernel.adapt(particles)

    def rows(shared, indices):
        particles, scores, kernel, weights = shared
        return stein_kernel_rows(particles, scores, kernel)(indices) @ weights

    total = weights @ _by_blocks(rows, (particles, scores, kernel, weights), jnp.arange(n), n)
    if statistic == "V":
        return jnp.maximum(total, 0.0)
    own = jax.vmap(lambda x, s: _stein_kernel(x, s, x, s, kernel))(particles, scores)
    return (total - jnp.sum(weights**2 * own)) / (1 - jnp.sum(weights**2))


def stein_kernel_rows(particles: Particles, scores: Scores, kernel: Kernel) -> Callable[[Array], Array]:
    """Return the function that gives the rows u_p(x_i, .) of the Stein kernel matrix for given indices i."""
    center = jnp.mean(particles, axis=0)
    return lambda indices: _stein_kernel_matrix(particles[indices], scores[indices], particles, scores, kernel, center)


def _stein_kernel_matrix(x, sx, y, sy, kernel, center) -> Array:
    """u_p at all pairs of rows of x and y."""
    match kernel:
        case Sum(terms):
            first, *others = (_stein_kernel_matrix(x, sx, y, sy, term, center) for term in terms)
            return sum(others, start=first)
        case Scaled(factor, term):
            return factor * _stein_kernel_matrix(x, sx, y, sy, term, center)
        case Radial():
            h, x, y = kernel.bandwidth(y), x - center, y - center
            t = _scaled_squares(x, _lifted(y, h), h)
            f, df, ddf = _with_two_derivatives(kernel.profile, t)
            across = jnp.sum(x * sx, axis=1)[:, None] + jnp.sum(y * sy, axis=1) - sx @ y.T - x @ sy.T
            dim = x.shape[1]
            return f * (sx @ sy.T) - (2 / h) * (df * (across + dim) + 2 * ddf * t)
        case Linear():
            vx, vy = kernel.precise(kernel.deviations(x)), kernel.precise(kernel.deviations(y))
            values = 1 + vx @ kernel.deviations(y).T
            trace = jnp.sum(jnp.diagonal(kernel.precise(jnp.eye(x.shape[1], dtype=x.dtype))))
            drift_x, drift_y = jnp.sum(sx * vx, axis=1), jnp.sum(sy * vy, axis=1)
            return values * (sx @ sy.T) + (drift_x[:, None] + drift_y + trace)
        case _:
            pairwise = jax.vmap(_stein_kernel, in_axes=(None, None, 0, 0, None))
            return jax.vmap(pairwise, in_axes=(0, 0, None, None, None))(x, sx, y, sy, kernel)


def _stein_kernel(x, sx, y, sy, kernel):
    """u_p(x, y) by autodiff: the definition."""
    dx, dy = jax.grad(kernel, argnums=(0, 1))(x, y)
    mixed = jax.jacfwd(jax.grad(kernel, argnums=0), argnums=1)(x, y)
    return kernel(x, y) * (sx @ sy) + sx @ dy + dx @ sy + jnp.trace(mixed)


def _scaled_squares(x, lifted, h):
    """|x_i - y_j|^2 / h as one matrix product with the lifted y: no other pass over the pairs."""
    squares = jnp.sum(x**2, axis=1, keepdims=True)
    left = jnp.concatenate([x * (-2 / h), jnp.ones_like(squares), squares / h], axis=1)
    return jnp.maximum(jnp.matmul(left, lifted.T, precision="highest"), 0.0)


def _lifted(y, h):
    squares = jnp.sum(y**2, axis=1, keepdims=True)
    return jnp.concatenate([y, squares / h, jnp.ones_like(squares)], axis=1)


def _with_derivative(profile, t):
    return jax.jvp(profile, (t,), (jnp.ones_like(t),))


def _with_two_derivatives(profile, t):
    (f, df), (_, ddf) = jax.jvp(lambda t: _with_derivative(profile, t), (t,), (jnp.ones_like(t),))
    return f, df, ddf


def _by_blocks(function, shared, rows, num_columns):
    """Return function(shared, rows), a function of each row, by blocks where the pairs are many, on all devices."""

    def own_blocks(shared, rows):
        return _own_blocks(lambda rows: function(shared, rows), rows, num_columns)

    return split_particles(own_blocks, shared, rows)


def _own_blocks(function, rows, num_columns):
    n = len(rows)
    if n * num_columns <= _UNBLOCKED_PAIRS:
        return function(rows)
    num_blocks = -(-n // max(_MIN_ROWS, min(_MAX_ROWS, _BLOCK_PAIRS // num_columns)))
    block = -(-n // num_blocks)  # even blocks: little padding
    padded = jnp.pad(rows, [(0, num_blocks * block - n)] + [(0, 0)] * (rows.ndim - 1))
    results = jax.lax.map(function, padded.reshape(num_blocks, block, *rows.shape[1:]))
    return results.reshape(num_blocks * block, *results.shape[2:])[:n]
