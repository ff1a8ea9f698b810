import jax
import jax.numpy as jnp
import numpy as np
import pytest

from steinflow.methods.svgd.memory import Trajectory
from tests.helpers.trajectories import NUM, TRUE, add, frame_around, remembered


def test_states_outside_are_not_remembered(gaussian):
    states, scores, mean, covariance = gaussian
    frame = frame_around(mean, covariance)
    memory = remembered(states, scores, frame)
    after = add(memory, 1e9 + states[0], scores[0, :, 0], scores[0], jnp.ones(NUM), frame, remembering=~TRUE)
    for before, now in zip(memory.recalled().moments(), after.recalled().moments(), strict=True):
        np.testing.assert_array_equal(before, now)
    np.testing.assert_array_equal(memory.recalled().states, after.recalled().states)


def test_what_is_forgotten_leaves_nothing(gaussian):
    states, scores, mean, covariance = gaussian
    frame = frame_around(mean, covariance)
    after = remembered(1e3 + states, scores, frame).forgotten()
    assert int(after.count) == 0
    for x, s in zip(states, scores, strict=True):
        after = add(after, x, jnp.zeros(NUM), frame.scores(s), jnp.ones(NUM), frame, remembering=TRUE)
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


def test_a_state_counts_as_long_as_it_lasts(gaussian):
    """Steps of two or three times the length are as good as states that come two or three times."""
    states, scores, mean, covariance = gaussian
    frame = frame_around(mean, covariance)
    durations = 1 + jax.random.randint(jax.random.key(5), states.shape[:2], 0, 3)
    slow = jnp.arange(NUM) < NUM // 2  # one half of the chains takes less time
    durations = jnp.where(slow, 1, durations).astype(jnp.float32)
    found = remembered(states, scores, frame, durations=durations).recalled()
    rows, pulls = (np.asarray(a, float).reshape(-1, 3) for a in (frame.points(states), frame.scores(scores)))
    often = np.asarray(durations, int).ravel()
    repeated, repeated_pulls = np.repeat(rows, often, axis=0), np.repeat(pulls, often, axis=0)
    moments = found.moments(controlled=False)
    np.testing.assert_allclose(moments.mean, repeated.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(moments.sd, repeated.std(axis=0), rtol=1e-4)
    np.testing.assert_allclose(found.pull()[0], repeated_pulls.mean(axis=0), atol=1e-4)
    kept = np.asarray(frame.points(found.states.reshape(-1, 3)), float)  # and those that are kept count equally
    np.testing.assert_allclose(kept.mean(axis=0), repeated.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(kept.std(axis=0), repeated.std(axis=0), rtol=0.02)


@pytest.mark.parametrize("num_steps", [3, 30, 1000])
def test_the_states_that_are_kept_are_spread_evenly_over_the_way(num_steps):
    """Each state is its own number, so that what is kept says when it was."""
    frame = frame_around(np.zeros(1), np.ones(1))
    start = Trajectory.empty(jnp.zeros((400, 1)), frame, num_steps)  # room for ten

    def one_more(step, memory):
        x = jnp.full((400, 1), step, jnp.float32)
        return memory.add(x, x[:, 0], x, jnp.ones(400), frame, remembering=TRUE)

    memory = jax.jit(lambda memory: jax.lax.fori_loop(0, num_steps, one_more, memory))(start)
    times = memory.recalled().states[:, 0, 0]
    assert len(times) == min(num_steps, 10)
    assert np.all(np.diff(times) > 0)
    if num_steps > 10:
        assert times.min() < 0.35 * num_steps
        assert times.max() > 0.65 * num_steps
        assert abs(times.mean() / num_steps - 0.5) < 0.2
