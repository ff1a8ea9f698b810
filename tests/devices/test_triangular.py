import jax.numpy as jnp
import numpy as np
import pytest

from steinflow.devices import triangular


@pytest.mark.parametrize("size", [1, 2, 32, 33, pytest.param(70, marks=pytest.mark.slow)])
def test_it_is_the_inverse(size, x64):
    rng = np.random.default_rng(0)
    lower = np.tril(rng.standard_normal((size, size)), -1) / size + np.diag(1 + rng.random(size))
    np.testing.assert_allclose(triangular.inverse(jnp.asarray(lower)), np.linalg.inv(lower), atol=1e-10)
