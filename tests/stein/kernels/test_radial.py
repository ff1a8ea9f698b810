"""Radial kernels: their values, and the direction and KSD as double loops."""

import jax
import jax.numpy as jnp
import naive
import numpy as np
import pytest
from compiled import ksd_squared, stein_direction

import steinflow as sf


def test_values():
    x, _ = naive.cloud(6, 2, jnp.float32)
    points = np.asarray(x, float)
    t = ((points[:, None] - points) ** 2).sum(-1) / 0.7
    np.testing.assert_allclose(naive.gram(sf.kernels.RBF(0.7), x), np.exp(-t), rtol=1e-5)
    np.testing.assert_allclose(naive.gram(sf.kernels.IMQ(0.7), x), (1 + t) ** -0.5, rtol=1e-5)
    np.testing.assert_allclose(naive.gram(sf.kernels.Multiquadric(0.7), x), -((1 + t) ** 0.75), rtol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_direction_and_ksd_are_double_loops(n, dtype):
    x, s = naive.cloud(n, 3, dtype)
    profiles = {
        sf.kernels.RBF: (lambda t: np.exp(-t), lambda t: -np.exp(-t), lambda t: np.exp(-t)),
        sf.kernels.IMQ: (lambda t: (1 + t) ** -0.5, lambda t: -0.5 * (1 + t) ** -1.5, lambda t: 0.75 * (1 + t) ** -2.5),
    }
    for kernel, profile in profiles.items():
        phi, u = naive.radial_loops(x, s, *profile, h=1.7)
        naive.assert_equal_to_rounding(stein_direction(x, s, kernel(1.7)), phi, dtype)
        naive.assert_equal_to_rounding(ksd_squared(x, s, kernel(1.7)), u.mean(), dtype, np.abs(u).max())


def test_one_step_is_the_authors_formula(dtype):
    """The authors' code: kernel exp(-d^2 / 2 eta^2), 2 eta^2 = median(d^2) / log(n + 1), n zeros included."""
    x, s = naive.cloud(9, 3, dtype)
    x64, s64 = np.asarray(x, float), np.asarray(s, float)
    squares = ((x64[:, None] - x64) ** 2).sum(-1)
    eta = np.sqrt(0.5 * np.median(squares) / np.log(len(x) + 1))
    k = np.exp(-squares / eta**2 / 2)
    gradient = (-k @ x64 + x64 * k.sum(axis=1)[:, None]) / eta**2
    expected = (k @ s64 + gradient) / len(x)
    naive.assert_equal_to_rounding(stein_direction(x, s, sf.kernels.RBF(2 * float(eta) ** 2)), expected, dtype)


def test_far_from_the_origin():
    """A cloud a thousand sds away loses no more digits than its coordinates have."""
    x, s = naive.cloud(50, 2, jnp.float32)
    direction = stein_direction(x, s, sf.kernels.RBF())
    np.testing.assert_allclose(stein_direction(x + 1000, s, sf.kernels.RBF()), direction, atol=2e-3)


def test_infinite_bandwidth_averages_the_scores():
    x, s = naive.cloud(5, 2, jnp.float32)
    for kernel in [sf.kernels.RBF(jnp.inf), sf.kernels.IMQ(jnp.inf)]:
        direction = stein_direction(x, s, kernel)
        np.testing.assert_allclose(direction, np.broadcast_to(np.mean(s, axis=0), s.shape), atol=1e-6)


def test_bandwidth_is_held_fixed_by_differentiation():
    x, _ = naive.cloud(5, 2, jnp.float32)
    gradient = jax.jit(jax.grad(lambda x: sf.kernels.RBF().adapt(x).bandwidth(x)))(x)
    assert not np.any(gradient)


def test_multiquadric_is_positive_definite_on_differences():
    x, _ = naive.cloud(6, 2, jnp.float32)
    values = naive.gram(sf.kernels.Multiquadric(0.7), x)
    centering = np.eye(6) - 1 / 6
    assert np.linalg.eigvalsh(values).min() < -1
    assert np.linalg.eigvalsh(centering @ values @ centering).min() > -1e-5


@pytest.mark.parametrize("kernel", [sf.kernels.RBF(1.7), sf.kernels.IMQ(1.7)])
def test_the_mean_of_cosines_over_frequencies_is_the_kernel(kernel):
    x, _ = naive.cloud(4, 3, jnp.float32)
    frequencies = kernel.frequencies(x, 100_000, key=jax.random.key(0))
    points = np.asarray(x)
    cosines = np.mean(np.cos((points[:, None] - points) @ np.asarray(frequencies).T), axis=-1)
    np.testing.assert_allclose(cosines, naive.gram(kernel, x), atol=4 / np.sqrt(100_000))
