"""The definitions of the paper, pair by pair: in autodiff for any kernel, and as double loops in NumPy for two."""

import jax
import jax.numpy as jnp
import numpy as np


def cloud(n, d, dtype, seed=0):
    """Particles off the origin, and arbitrary scores."""
    rng = np.random.default_rng(seed)
    return jnp.asarray(1 + 2 * rng.normal(size=(n, d)), dtype), jnp.asarray(rng.normal(size=(n, d)), dtype)


def assert_equal_to_rounding(value, expected, dtype, scale=1.0, what=""):
    digits = {"float32": 3e-5, "float64": 1e-12}[jnp.dtype(dtype).name]
    np.testing.assert_allclose(value, expected, rtol=digits, atol=digits * scale, err_msg=what)


def gram(kernel, points):
    """k(x_i, x_j) at every pair."""
    return np.asarray(jax.vmap(lambda x: jax.vmap(lambda y: kernel(x, y))(points))(points), float)


def direction(particles, scores, kernel, at):
    """phi(x) = 1/n sum_j [k(x_j, x) s_j + grad_{x_j} k(x_j, x)], by autodiff at every pair."""

    def summand(x_j, s_j, x):
        value, gradient = jax.value_and_grad(kernel)(x_j, x)
        return value * s_j + gradient

    pairs = jax.vmap(jax.vmap(summand, in_axes=(0, 0, None)), in_axes=(None, None, 0))(particles, scores, at)
    return jnp.mean(pairs, axis=1)


def stein_kernel(particles, scores, kernel):
    """Stein's operator on both arguments: u_p(x, y) = (s_x' + div_x) (k(x, y) s_y + grad_y k(x, y))."""

    def u(x, sx, y, sy):
        def operated_on_y(x):
            return kernel(x, y) * sy + jax.grad(kernel, argnums=1)(x, y)

        return sx @ operated_on_y(x) + jnp.trace(jax.jacrev(operated_on_y)(x))

    rows = jax.vmap(u, in_axes=(None, None, 0, 0))
    return jax.vmap(rows, in_axes=(0, 0, None, None))(particles, scores, particles, scores)


def radial_loops(particles, scores, f, df, ddf, h):
    """Direction and u_p for k = f(|x - y|^2 / h) in double loops, in double precision, derivatives by hand."""
    x, s = np.asarray(particles, float), np.asarray(scores, float)
    n, d = x.shape
    phi, u = np.zeros((n, d)), np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            difference = x[j] - x[i]
            t = difference @ difference / h
            phi[i] += (f(t) * s[j] + 2 / h * df(t) * difference) / n
            trace = -2 / h * (d * df(t) + 2 * t * ddf(t))
            u[i, j] = f(t) * s[i] @ s[j] + 2 / h * df(t) * (s[i] - s[j]) @ difference + trace
    return phi, u


def median_distance(particles):
    x = np.asarray(particles, float)
    first, second = np.triu_indices(len(x), 1)
    return np.median(np.linalg.norm(x[first] - x[second], axis=1))
