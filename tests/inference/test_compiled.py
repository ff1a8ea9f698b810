"""What is compiled of a run: chunks of any length lead to the same states, and buffers that are not full are cut."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from runs import PAPER, X0
from scenarios import normal_log_density

import steinflow as sf
from steinflow.inference.compiled import Run
from steinflow.inference.plan import Plan
from steinflow.methods.base import Draws
from steinflow.targets.flat import flatten


def mean_of(particles):
    return jnp.mean(particles, axis=0)


def plan():
    flat, start = flatten(sf.Density(normal_log_density), jnp.asarray(X0))
    record = {"mean": mean_of}
    return Plan(PAPER, flat, record, jnp.asarray(np.int32(20)), jax.random.key(1), jax.random.key(2)), start


@pytest.fixture(scope="module")
def run():
    """A run, and its state before the first step."""
    made, start = plan()
    run = Run(made)
    return run, run.init(start, 20, jax.random.key(0))


def test_chunks_of_any_length_lead_to_the_same_state(run):
    run, start = run
    whole = run.advance(start, 0, 5, None)
    parts = run.advance(run.advance(start, 0, 2, None), 2, 5, None)
    np.testing.assert_array_equal(whole.particles, parts.particles)
    np.testing.assert_array_equal(run.advance(start, 3, 3, None).particles, start.particles)
    assert np.any(whole.particles != start.particles)


def test_equal_plans_are_the_same_constant_of_compiled_code():
    """Whose hash decides whether a second run compiles anything."""
    (first, _), (second, _) = (Run(plan()[0])._parts for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert first != Run(Plan(sf.SVGD(), *list(vars(plan()[0]).values())[1:]))._parts[0]


class Counting(sf.Method):
    """Counts from a weakly typed zero, as `jnp.asarray(0)` is."""

    def init(self, target, particles, *, num_steps, key):
        return particles, jnp.asarray(0)

    def step(self, target, state, batch, *, time, key):
        return state[0], state[1] + jnp.ones((), jnp.int32)

    def draws(self, target, state, *, key):
        return Draws(state[0])


def test_states_have_the_types_that_steps_leave_them_in():
    """Or else all that takes a state is compiled twice, for the first one and for those after it."""
    made, start = plan()
    run = Run(Plan(Counting(), *list(vars(made).values())[1:]))
    first = run.init(start, 20, jax.random.key(0))
    second = run.advance(first, 0, 1, None)
    assert int(second[1]) == 1
    assert [leaf.aval for leaf in first] == [leaf.aval for leaf in second]


def test_records_are_announced_as_they_come(run):
    run, start = run
    announced, found = run.records(start, None), run.watch(start, 0, None)
    assert set(announced) == set(found) == {*announced, "ksd", "dispersion", "finite", "mean"}
    np.testing.assert_allclose(found["mean"], X0.mean(axis=0), rtol=1e-6)
    assert announced["mean"].shape == found["mean"].shape


def test_the_final_view_has_the_scores_of_its_particles(run):
    run, start = run
    view = run.final(start, 0, None)
    np.testing.assert_array_equal(view.draws.particles, X0)
    np.testing.assert_allclose(view.scores, -X0, rtol=1e-6)
    np.testing.assert_allclose(view.log_densities, -0.5 * np.sum(X0**2, axis=1), rtol=1e-5)
    assert view.cut() is view


def test_steps_say_what_memory_they_take(run):
    run, start = run
    assert run.step_memory(start, None) >= X0.nbytes
