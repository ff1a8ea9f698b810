"""Runs that are computed together: each is the run that it would be alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from runs import PAPER, X0

import steinflow as sf
from steinflow.inference.blocks import Block, BlockRun, Runs
from steinflow.inference.compiled import Run
from steinflow.inference.plan import Plan
from steinflow.targets.flat import flatten

MEANS = np.array([-1.0, 0.0, 5.0], np.float32)
KEYS = np.asarray(jax.random.key_data(jax.random.split(jax.random.key(0), 3)))


def make(mean):
    return sf.Density(lambda x: -0.5 * jnp.sum((x - mean) ** 2))


@pytest.fixture(scope="module")
def run():
    """Three runs, and their block before the first step."""
    flat, _ = flatten(make(jnp.zeros(())), jnp.asarray(X0))
    found = BlockRun(Runs(PAPER, make, flat.unravel, flat.dim, jnp.asarray(np.int32(20)), "threefry2x32"), 20)
    start = found.unconstrained(MEANS, np.broadcast_to(X0, (3, *X0.shape)))
    return found, found.start(np.arange(3), MEANS, start, KEYS, KEYS)


def test_steps_in_pieces_and_of_some_of_the_runs(run):
    found, block = run
    whole = found.advance(block, 5)
    parts = found.advance(found.advance(block, 2), 3)
    np.testing.assert_array_equal(whole.states.particles, parts.states.particles)
    np.testing.assert_array_equal(parts.steps, [5, 5, 5])
    moved = found.advance(block.at(np.array([2, 0, 1])), 5)
    np.testing.assert_allclose(moved.states.particles, np.asarray(whole.states.particles)[[2, 0, 1]], rtol=1e-6)


def test_each_is_that_of_a_run_alone(run):
    found, block = run
    together = found.advance(block, 5).states.particles[2]
    flat, start = flatten(make(jnp.asarray(MEANS[2])), jnp.asarray(X0))
    key = jax.random.wrap_key_data(jnp.asarray(KEYS[2]))
    alone = Run(Plan(PAPER, flat, {}, jnp.asarray(np.int32(20)), key, key))
    expected = alone.advance(alone.init(start, 20, key), 0, 5, None).particles
    np.testing.assert_allclose(together, expected, rtol=1e-4, atol=1e-5)


def test_blocks_are_joined_and_taken_apart(run):
    _, block = run
    joined = Block.of([block.at(np.array([1])), block.at(np.array([2, 0]))])
    np.testing.assert_array_equal(joined.items, MEANS[[1, 2, 0]])
    np.testing.assert_array_equal(joined.keys, KEYS[[1, 2, 0]])


def test_what_they_look_like(run):
    found, block = run
    view = found.view(block.items, block.states)
    np.testing.assert_allclose(view.scores, MEANS[:, None, None] - X0, rtol=1e-5)
    assert np.all(view.finite)
    assert found.step_memory(block) >= 3 * X0.nbytes
