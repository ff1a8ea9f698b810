"""The linear kernel in units of the cloud, also where the cloud has no spread."""

import jax.numpy as jnp
import naive
import numpy as np
import pytest

import steinflow as sf

X, _ = naive.cloud(6, 2, jnp.float32)
each_covariance = pytest.mark.parametrize("covariance", ["diagonal", "full"])


@each_covariance
def test_linear_is_in_units_of_the_cloud(covariance):
    x = np.asarray(X, float)
    v = x - x.mean(0)
    cov = v.T @ v / len(v)
    precision = np.linalg.inv(cov) if covariance == "full" else np.diag(1 / np.diag(cov))
    kernel = sf.kernels.Linear(covariance).adapt(X)
    np.testing.assert_allclose(naive.gram(kernel, X), 1 + v @ precision @ v.T, rtol=1e-4, atol=1e-5)
    again = kernel.adapt(5 * X)  # adapted is adapted
    np.testing.assert_array_equal(again.center, kernel.center)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e3])
@each_covariance
def test_linear_without_spread_is_the_constant(covariance, value):
    """The rounding of the mean is no variance to divide by."""
    x = jnp.full((30, 3), value)
    kernel = sf.kernels.Linear(covariance).adapt(x)
    assert not jnp.any(kernel.precision)
    direction = sf.stein_direction(x, jnp.ones_like(x), sf.kernels.Linear(covariance))
    np.testing.assert_allclose(direction, 1.0, rtol=1e-6)


@each_covariance
def test_linear_with_one_flat_coordinate(covariance):
    x = X.at[:, 1].set(0.1)
    assert jnp.all(jnp.abs(sf.stein_direction(x, -x, sf.kernels.Linear(covariance))) < 10)


def test_linear_takes_two_covariances():
    with pytest.raises(ValueError, match="'diagonal' or 'full'"):
        sf.kernels.Linear("banded")


def test_a_recipe_is_no_function_yet():
    with pytest.raises(ValueError, match="adapt"):
        sf.kernels.Linear()(X[0], X[1])
