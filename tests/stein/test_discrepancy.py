"""The statistics of the kernelized Stein discrepancy; its kernels are tested in `kernels/`."""

import jax
import jax.numpy as jnp
import naive
import numpy as np
import pytest
from compiled import ksd_squared

import steinflow as sf
from steinflow.stein.discrepancy import stein_kernel_rows


def test_weights():
    """A particle of double weight is two particles."""
    x, s = naive.cloud(4, 2, jnp.float32)
    kernel = sf.kernels.IMQ(1.0)
    weights = jnp.asarray(np.array([2.0, 1.0, 1.0, 1.0], np.float32) / 5)
    x_twice, s_twice = (jnp.asarray(np.asarray(values)[[0, 0, 1, 2, 3]]) for values in (x, s))
    weighted = ksd_squared(x, s, kernel, weights=weights)
    np.testing.assert_allclose(weighted, ksd_squared(x_twice, s_twice, kernel), rtol=1e-5)


def test_rows_are_those_of_the_matrix():
    x, s = naive.cloud(5, 2, jnp.float32)
    rows = jax.jit(lambda which: stein_kernel_rows(x, s, sf.kernels.Centered(sf.kernels.IMQ()))(which))
    matrix = np.asarray(rows(jnp.asarray(np.arange(5))))
    np.testing.assert_allclose(rows(jnp.array([3, 1])), matrix[[3, 1]], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-5, atol=1e-6)


def test_u_statistic_needs_pairs():
    with pytest.raises(ValueError, match="at least two"):
        ksd_squared(*naive.cloud(1, 2, jnp.float32), sf.kernels.RBF(), "U")
    with pytest.raises(ValueError, match="'U' or 'V'"):
        ksd_squared(*naive.cloud(2, 2, jnp.float32), sf.kernels.RBF(), "W")
