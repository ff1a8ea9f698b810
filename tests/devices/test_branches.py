"""A branch that many take: the values of `lax.cond`, and nothing is computed that nobody takes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from steinflow.devices.branches import either


def chosen(condition, x):
    return either(condition, lambda: (x + 1, x.sum()), lambda: (2 * x, jnp.zeros(())))


@pytest.mark.parametrize("conditions", [[True, False, True], [True] * 3, [False] * 3])
def test_many_get_what_each_would_get_alone(conditions):
    x = np.arange(6.0, dtype=np.float32).reshape(3, 2)
    found = jax.jit(jax.vmap(chosen))(np.array(conditions), x)
    expected = [
        jax.lax.cond(c, lambda x: (x + 1, x.sum()), lambda x: (2 * x, jnp.zeros(())), row)
        for c, row in zip(conditions, x, strict=True)
    ]
    for k in range(2):
        np.testing.assert_array_equal(found[k], np.stack([one[k] for one in expected]))


def test_a_condition_that_all_share():
    x = np.arange(6.0, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(jax.vmap(chosen, in_axes=(None, 0))(jnp.array(True), x)[0], x + 1)


def test_a_branch_that_nobody_takes_is_not_computed():
    calls = []

    def counted(x):
        jax.debug.callback(lambda _: calls.append(1), x)
        return x

    def one(condition, x):
        return either(condition, lambda: counted(x), lambda: 2 * x)

    run = jax.jit(jax.vmap(one))
    jax.block_until_ready(run(np.zeros(3, bool), np.ones(3, np.float32)))
    jax.effects_barrier()
    assert not calls
    jax.block_until_ready(run(np.array([False, True, False]), np.ones(3, np.float32)))
    jax.effects_barrier()
    assert len(calls) == 3
