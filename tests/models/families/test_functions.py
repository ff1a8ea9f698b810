"""Functions of JAX and of NumPy by the same names, with the same values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from steinflow.models.families.functions import functions_of

NAMES = ["exp", "expm1", "gammaln", "expit", "log_expit", "ndtr", "log_ndtr"]


@pytest.mark.parametrize("name", NAMES)
def test_both_compute_the_same(name, x64):
    x = np.linspace(0.2, 3, 5)
    on_host, on_device = (getattr(functions_of({"x": each}), name)(each) for each in (x, jnp.asarray(x, float)))
    assert isinstance(on_host, np.ndarray)
    assert isinstance(on_device, jax.Array)
    np.testing.assert_allclose(on_host, on_device, rtol=1e-10)


def test_one_array_of_jax_is_enough():
    assert functions_of({"mu": jnp.zeros(2)}, {"y": np.zeros(2)}) is functions_of(jnp.zeros(1))
    assert functions_of({"mu": np.zeros(2)}, {}) is functions_of()


def test_the_log_sigmoid_has_a_finite_slope_everywhere():
    slopes = jax.vmap(jax.grad(functions_of(jnp.zeros(1)).log_expit))(jnp.array([-100.0, 0.0, 100.0]))
    np.testing.assert_allclose(slopes, [1, 0.5, 0], atol=1e-6)
