"""Mean and shape, and squared distances, against their definitions."""

import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import naive
import numpy as np
import pytest

from steinflow.stein.geometry import even_sample, mean_and_shape, squared_distances


def test_mean_and_shape():
    x, _ = naive.cloud(5, 3, jnp.float32)
    mean, shape = mean_and_shape(x)
    np.testing.assert_allclose(mean, np.mean(x, axis=0), rtol=1e-6)
    np.testing.assert_allclose(shape, (np.eye(5) - 1 / 5) @ np.asarray(x, float), atol=1e-6)
    np.testing.assert_allclose(mean + shape, x, rtol=1e-6)


@hypothesis.settings(max_examples=50, deadline=None, derandomize=True)
@hypothesis.given(
    x=hnp.arrays(float, (3, 2), elements=st.floats(-1e3, 1e3)),
    y=hnp.arrays(float, (4, 2), elements=st.floats(-1e3, 1e3)),
)
def test_squared_distances(x, y):
    with jax.enable_x64(True):
        squares = np.asarray(squared_distances(jnp.asarray(x), jnp.asarray(y)))
    expected = ((x[:, None] - y) ** 2).sum(-1)
    size = np.abs(x).max() + np.abs(y).max()
    np.testing.assert_allclose(squares, expected, rtol=1e-12, atol=1e-14 * size**2)
    assert np.all(squares >= 0)


@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_digits_are_kept_far_from_the_origin(shift):
    x, _ = naive.cloud(20, 3, jnp.float32)
    x = x + shift
    points = np.asarray(x, float)
    np.testing.assert_allclose(squared_distances(x, x), ((points[:, None] - points) ** 2).sum(-1), rtol=1e-4, atol=1e-4)


def test_batches_of_clouds():
    x, _ = naive.cloud(12, 2, jnp.float32)
    x, y = x[:6].reshape(2, 3, 2), x[6:].reshape(2, 3, 2)
    squares = squared_distances(x, y)
    for i in range(2):
        np.testing.assert_allclose(squares[i], squared_distances(x[i], y[i]), rtol=1e-6)


def test_even_sample_without_weights():
    np.testing.assert_array_equal(even_sample(10, 4), [0, 3, 6, 9])
    np.testing.assert_array_equal(even_sample(4, 10), [0, 1, 2, 3])


def test_even_sample_follows_the_weights():
    """Systematic resampling: every particle comes as often as its weight says, to within one."""
    weights = np.random.default_rng(2).dirichlet(np.full(30, 0.3))
    counts = np.bincount(even_sample(30, 500, weights), minlength=30)
    assert counts.sum() == 500
    assert np.all(np.abs(counts - 500 * weights) <= 1)
