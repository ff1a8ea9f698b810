"""What a step sees of the data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from runs import PAPER

import steinflow as sf
from steinflow.inference.plan import Plan
from steinflow.targets.anchors import Minibatch
from steinflow.targets.feed import Block
from steinflow.targets.flat import flatten


def plan(batch_size):
    rows = np.arange(12.0)
    target = sf.Posterior(lambda x: -(x**2), lambda x, y: -((y - x) ** 2), rows, batch_size=batch_size)
    flat, _ = flatten(target, jnp.zeros(3))
    return Plan(PAPER, flat, {}, jnp.asarray(20), jax.random.key(1), jax.random.key(2))


def test_a_batch_follows_from_the_key_of_the_data_and_the_step():
    found = plan(4)
    rows = np.concatenate([found.batch(jnp.asarray(step), None, None).rows for step in range(3)])
    np.testing.assert_array_equal(np.sort(rows), np.arange(12.0))  # an epoch
    again = found.target.minibatch(found.data_key, jnp.asarray(2), None)
    np.testing.assert_array_equal(again.rows, rows[8:])


@pytest.mark.parametrize(("step", "last"), [(0, 0), (1, 0), (7, 6)])
def test_the_last_batch_is_that_of_the_step_before(step, last):
    found = plan(4)
    last_batch, batch = found.last_batch(jnp.asarray(step), None, None), found.batch(jnp.asarray(last), None, None)
    np.testing.assert_array_equal(last_batch.rows, batch.rows)


def test_all_rows_are_no_batch():
    assert plan(None).batch(jnp.asarray(0), None, None) is None


def test_blocks_from_the_host_are_batches_too():
    block = Block(jnp.asarray(5), jnp.arange(6.0).reshape(3, 2))
    batch = plan(4).batch(jnp.asarray(6), block, None)
    assert isinstance(batch, Minibatch)
    np.testing.assert_array_equal(batch.rows, [2, 3])
    np.testing.assert_array_equal(plan(None).batch(jnp.asarray(6), block, None), [2, 3])
