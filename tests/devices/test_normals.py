"""The quick normals are JAX's own numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from steinflow.devices.normals import _words, normal, uniform


@pytest.mark.parametrize(
    "shape", [(), (7,), (3, 4, 5), *(pytest.param(shape, marks=pytest.mark.slow) for shape in ((1,), (100, 56)))]
)
def test_they_are_those_of_jax(shape):
    for seed in range(3):
        key = jax.random.fold_in(jax.random.key(seed), 7)
        words = _words(key, int(np.prod(shape))).reshape(shape)
        np.testing.assert_array_equal(words, jax.random.bits(key, shape))
        np.testing.assert_allclose(normal(key, shape, jnp.float32), jax.random.normal(key, shape), rtol=1e-6)
        np.testing.assert_array_equal(uniform(key, shape, jnp.float32), jax.random.uniform(key, shape))


def test_under_jit_and_vmap():
    keys = jax.random.split(jax.random.key(0), 4)
    draw = jax.jit(jax.vmap(lambda key: normal(key, (5,), jnp.float32)))
    expected = jax.vmap(lambda key: jax.random.normal(key, (5,)))(keys)
    np.testing.assert_allclose(draw(keys), expected, rtol=1e-6)


def test_other_generators_and_precisions(x64):
    other = jax.random.key(0, impl="rbg")
    np.testing.assert_array_equal(normal(other, (9,), jnp.float32), jax.random.normal(other, (9,), jnp.float32))
    key = jax.random.key(0)
    np.testing.assert_array_equal(normal(key, (9,), jnp.float64), jax.random.normal(key, (9,), jnp.float64))
