import jax
import jax.numpy as jnp
import numpy as np
import pytest

from steinflow.methods.svgd.memory import Trajectory
from tests.helpers.trajectories import NUM, TRUE, frame_around, remembered


def test_states_outside_are_not_remembered(gaussian):
    states, scores, mean, covariance = gaussian
    frame = frame_around(mean, covariance)
    memory = remembered(states, scores, frame)
    after = memory.add(1e9 + states[0], scores[0, :, 0], scores[0], frame, remembering=~TRUE)
    for before, now in zip(memory.recalled().moments(), after.recalled().moments(), strict=True):
        np.testing.assert_array_equal(before, now)
    np.testing.assert_array_equal(memory.recalled().states, after.recalled().states)


def test_what_is_forgotten_leaves_nothing(gaussian):
    states, scores, mean, covariance = gaussian
    frame = frame_around(mean, covariance)
    after = remembered(1e3 + states, scores, frame).forgotten()
    assert int(after.count) == 0
    for x, s in zip(states, scores, strict=True):
        after = after.add(x, jnp.zeros(len(x)), frame.scores(s), frame, remembering=TRUE)
    fresh = remembered(states, scores, frame)
    np.testing.assert_allclose(after.recalled().points, fresh.recalled().points, atol=1e-6)
    np.testing.assert_array_equal(after.recalled().states, fresh.recalled().states)


def test_mixed_is_r_hat_below_a_limit(gaussian):
    states, scores, mean, covariance = gaussian
    frame = frame_around(mean, covariance)
    assert bool(remembered(states, scores, frame).mixed())
    for shift, mixed in ((1.0, True), (4.0, False)):
        apart = remembered(states.at[:, : NUM // 2, 0].add(shift), scores, frame)
        assert bool(apart.mixed()) == mixed == (apart.recalled().mixing() < 1.2)


@pytest.mark.parametrize("num_steps", [3, 30, 1000])
def test_the_states_that_are_kept_are_spread_evenly_over_the_way(num_steps):
    """Each state is its own number, so that what is kept says when it was."""
    frame = frame_around(np.zeros(1), np.ones(1))
    start = Trajectory.empty(jnp.zeros((400, 1)), frame, num_steps)  # room for ten

    def add(step, memory):
        x = jnp.full((400, 1), step, jnp.float32)
        return memory.add(x, x[:, 0], x, frame, remembering=TRUE)

    memory = jax.jit(lambda memory: jax.lax.fori_loop(0, num_steps, add, memory))(start)
    times = memory.recalled().states[:, 0, 0]
    assert len(times) == min(num_steps, 10)
    assert np.all(np.diff(times) > 0)
    if num_steps > 10:
        assert times.min() < 0.35 * num_steps
        assert times.max() > 0.65 * num_steps
        assert abs(times.mean() / num_steps - 0.5) < 0.2
