import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf
from steinflow.methods.svgd import functionals
from steinflow.stein.discrepancy import imq_stein_matrix


def states_of(log_density, draws):
    """Draws as states of chains, with their scores."""
    scores = jax.vmap(jax.vmap(jax.grad(log_density)))(jnp.asarray(draws))
    return np.asarray(draws, float), np.asarray(scores, float)


def test_the_stein_matrix_is_that_of_the_kernel():
    rng = np.random.default_rng(0)
    x, sx, y, sy = rng.standard_normal((4, 6, 3))
    y, sy = y[:4], sy[:4]
    with jax.enable_x64(True):
        expected = sf.kernels.IMQ(3.0).stein_matrix(*((jnp.asarray(a), jnp.asarray(b)) for a, b in ((x, sx), (y, sy))))
    np.testing.assert_allclose(imq_stein_matrix(x, sx, y, sy, 3.0), expected, rtol=1e-9)


def test_weights_of_modes_follow_from_the_density_between_them():
    """Of states whose modes have the wrong weights, 0.4 for 1/3: the average is off, what is left over is not."""

    def log_density(x):
        return jnp.logaddexp(jnp.log(1 / 3) - 0.5 * (x[0] + 2) ** 2, jnp.log(2 / 3) - 0.5 * (x[0] - 2) ** 2)

    rng = np.random.default_rng(1)
    draws = rng.standard_normal((40, 100, 1)) + np.where(np.arange(100) < 40, -2, 2)[rng.permutation(100), None]
    x, s = states_of(log_density, draws)
    mean, error = functionals.average(x, s, x)
    assert abs(np.mean(x) - 2 / 3) > 0.2
    np.testing.assert_allclose(mean, 2 / 3, atol=0.02)
    assert error < 0.02


@pytest.mark.slow
def test_the_error_is_what_it_says():
    """Of second moments of heavy tails, of which it explains little, and of means, of which it explains much."""

    def log_density(x):
        return -(7 + 5) / 2 * jnp.log1p(x @ x / 7)

    rng, misses, gains = np.random.default_rng(2), [], []
    for _ in range(20):
        draws = rng.standard_normal((40, 50, 5)) / np.sqrt(rng.chisquare(7, (40, 50, 1)) / 7)
        x, s = states_of(log_density, draws)
        values = np.append(x, x**2, axis=2)
        mean, error = functionals.average(x, s, values)
        misses.append((mean - np.repeat([0, 7 / 5], 5)) / error)
        gains.append(error / (np.std(np.mean(values, axis=0), axis=0) / 50**0.5))
    sizes = np.sqrt(np.mean(np.square(misses), axis=0)).reshape(2, 5).mean(axis=1)
    assert np.all((sizes > 0.7) & (sizes < 1.5)), sizes
    gains = np.mean(gains, axis=0).reshape(2, 5).mean(axis=1)
    assert np.all(gains < [0.5, 1.1]), gains


def test_on_a_gaussian_little_is_left_to_chance():
    rng = np.random.default_rng(3)
    x, s = states_of(lambda x: -0.5 * x @ x, rng.standard_normal((40, 50, 5)) + 0.1)  # not quite at its mean
    mean, error = functionals.average(x, s, np.append(x, x**2, axis=2))
    np.testing.assert_allclose(mean[:5], 0.0, atol=5e-3)  # but for the ridge
    np.testing.assert_allclose(mean[5:], 1.0, atol=0.02)
    assert np.all(error[:5] < 5e-3)
