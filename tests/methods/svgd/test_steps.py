import jax
import jax.numpy as jnp
import numpy as np
import optax
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


def test_decaying_adam_is_adam_on_a_cosine(dtype):
    num_steps, start = 8, jnp.asarray([1.0, -2.0, 3.0], dtype)
    ours, theirs = sf.decaying_adam(0.4), optax.adam(optax.cosine_decay_schedule(0.1, num_steps))
    our_state, their_state = ours.init(start), theirs.init(start)
    for step, g in enumerate(np.random.default_rng(0).normal(size=(num_steps, 3))):
        done = {"fraction": jnp.asarray(step / num_steps), "num_steps": jnp.asarray(num_steps)}
        updates, our_state = ours.update(jnp.asarray(g, dtype), our_state, **done)
        expected, their_state = theirs.update(jnp.asarray(g, dtype), their_state)
        np.testing.assert_allclose(updates, expected, rtol=1e-4)
        assert updates.dtype == dtype


@pytest.mark.parametrize("factory", [sf.adagrad, sf.adagrad_with_momentum])
def test_zero_directions_are_safe_and_factories_are_cached(factory):
    optimizer = factory(0.1)
    assert factory(0.1) is optimizer
    updates, _ = jax.jit(optimizer.update)(jnp.zeros(2), optimizer.init(jnp.zeros(2)))
    assert not jnp.any(updates)
