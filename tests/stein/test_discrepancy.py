"""The statistics of the kernelized Stein discrepancy; its kernels are tested in `kernels/`."""

import jax.numpy as jnp
import naive
import numpy as np
import pytest

import steinflow as sf
from steinflow.stein.discrepancy import ksd_squared, stein_kernel_rows


def test_weights():
    """A particle of double weight is two particles."""
    x, s = naive.cloud(4, 2, jnp.float32)
    kernel = sf.kernels.IMQ(1.0)
    weights = jnp.array([2.0, 1.0, 1.0, 1.0]) / 5
    twice = jnp.array([0, 0, 1, 2, 3])
    weighted = ksd_squared(x, s, kernel, weights=weights)
    np.testing.assert_allclose(weighted, ksd_squared(x[twice], s[twice], kernel), rtol=1e-5)


def test_rows_are_those_of_the_matrix():
    x, s = naive.cloud(5, 2, jnp.float32)
    rows = stein_kernel_rows(x, s, sf.kernels.Centered(sf.kernels.IMQ()))
    matrix = rows(jnp.arange(5))
    np.testing.assert_allclose(rows(jnp.array([3, 1])), matrix[jnp.array([3, 1])], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-5, atol=1e-6)


def test_u_statistic_needs_pairs():
    with pytest.raises(ValueError, match="at least two"):
        ksd_squared(*naive.cloud(1, 2, jnp.float32), sf.kernels.RBF(), "U")
    with pytest.raises(ValueError, match="'U' or 'V'"):
        ksd_squared(*naive.cloud(2, 2, jnp.float32), sf.kernels.RBF(), "W")
