import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf


def test_adagrad_is_its_formula(dtype):
    """Plain AdaGrad of the paper's experiments: g / sqrt(sum of squares)."""
    gradients = np.random.default_rng(0).normal(size=(4, 3))
    optimizer = sf.adagrad(0.5)
    state = optimizer.init(jnp.zeros(3, dtype))
    total = np.zeros(3)
    for g in gradients:
        updates, state = optimizer.update(jnp.asarray(g, dtype), state)
        total += g**2
        np.testing.assert_allclose(updates, -0.5 * g / np.sqrt(total), rtol=1e-4)
        assert updates.dtype == dtype


def test_authors_accumulator(dtype):
    """G_0 = g_0^2; G_t = 0.9 G + 0.1 g^2; a step of eps g / (1e-6 + sqrt G)."""
    gradients = np.random.default_rng(0).normal(size=(5, 3))
    optimizer = sf.adagrad_with_momentum(0.01)
    state = optimizer.init(jnp.zeros(3, dtype))
    accumulator = gradients[0] ** 2
    for step, g in enumerate(gradients):
        updates, state = optimizer.update(jnp.asarray(g, dtype), state)
        accumulator = accumulator if step == 0 else 0.9 * accumulator + 0.1 * g**2
        np.testing.assert_allclose(updates, -0.01 * g / (1e-6 + np.sqrt(accumulator)), rtol=1e-4)
        assert updates.dtype == dtype


@pytest.mark.parametrize("factory", [sf.adagrad, sf.adagrad_with_momentum])
def test_zero_directions_are_safe_and_factories_are_cached(factory):
    optimizer = factory(0.1)
    assert factory(0.1) is optimizer
    updates, _ = jax.jit(optimizer.update)(jnp.zeros(2), optimizer.init(jnp.zeros(2)))
    assert not jnp.any(updates)
