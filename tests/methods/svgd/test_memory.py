import jax
import jax.numpy as jnp
import numpy as np
import pytest

from steinflow.methods.svgd.memory import Trajectory
from steinflow.methods.svgd.metrics import frame_of

NUM, DIM, STEPS = 50, 3, 40
TRUE = jnp.array([True])[0]


def remembered(states, scores, frame):
    """The memory of these states (steps, n, d), one after the other."""
    memory = Trajectory.empty(states[0], frame, len(states))
    add = jax.jit(Trajectory.add)
    for x, s in zip(states, scores, strict=True):
        memory = add(memory, x, jnp.zeros(len(x)), frame.scores(s), frame, remembering=TRUE)
    return memory


def frame_around(center, covariance):
    return frame_of(jnp.asarray(center, jnp.float32), jnp.asarray(covariance, jnp.float32))


@pytest.fixture(scope="module")
def gaussian():
    """States of a correlated Gaussian, its mean and covariance, and a spread near it."""
    rng = np.random.default_rng(0)
    root = np.tril(rng.standard_normal((DIM, DIM))) + 2 * np.eye(DIM)
    mean, covariance = np.array([1.0, -2.0, 3.0]), root @ root.T
    states = mean + rng.standard_normal((STEPS, NUM, DIM)) @ root.T
    scores = -(states - mean) @ np.linalg.inv(covariance)
    return jnp.asarray(states, jnp.float32), jnp.asarray(scores, jnp.float32), mean, covariance


def test_moments_are_those_of_all_states(gaussian):
    states, scores, mean, covariance = gaussian
    frame = frame_around(mean, covariance)
    moments = remembered(states, scores, frame).moments(controlled=False)
    rows = np.asarray(frame.points(states.reshape(-1, DIM)), float)
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(moments.sd, rows.std(axis=0), rtol=1e-4)
    # Independent states: the errors are the usual ones.
    np.testing.assert_allclose(moments.mean_error, len(rows) ** -0.5, rtol=0.4)
    np.testing.assert_allclose(moments.sd_error, (2 * len(rows)) ** -0.5, rtol=0.5)


def test_control_variates_are_exact_on_gaussians(gaussian):
    """In the true coordinates nothing is left to chance; in others, less than without them."""
    states, scores, mean, covariance = gaussian
    exact = remembered(states, scores, frame_around(mean + 1, covariance)).moments()
    shift = np.asarray(frame_around(mean + 1, covariance).points(jnp.asarray(mean, jnp.float32)))
    np.testing.assert_allclose(exact.mean, shift, atol=1e-4)
    np.testing.assert_allclose(exact.sd, 1.0, rtol=1e-4)
    rough = remembered(states, scores, frame_around(mean, np.diag(np.diag(covariance))))
    assert np.all(rough.moments().mean_error < rough.moments(controlled=False).mean_error)


def test_mixing_is_r_hat(gaussian):
    states, scores, mean, covariance = gaussian
    frame = frame_around(mean, covariance)
    assert 1.0 <= remembered(states, scores, frame).mixing() < 1.05
    apart = states.at[:, : NUM // 2].add(100.0)
    assert remembered(apart, scores, frame).mixing() > 5


def test_the_identities_of_stein_hold_on_the_target_and_nowhere_else(gaussian):
    states, scores, mean, covariance = gaussian
    frame = frame_around(mean, covariance)
    for found, error, right in (
        (*remembered(states, scores, frame).pull(), 0.0),
        (*remembered(states, scores, frame).dispersion(), 1.0),
    ):
        assert np.all(np.abs(found - right) < 4 * error)
    moved = remembered(states + 1.0, scores, frame)  # where the scores are those of another place
    wide = remembered(2 * states, scores, frame)
    np.testing.assert_allclose(moved.pull()[0], 0.0, atol=0.1)  # these alone do not see it,
    assert moved.findings()["dispersion"] == pytest.approx(1.0, abs=0.05)
    assert wide.findings()["dispersion"] == pytest.approx(2.0, rel=0.1)  # but a wider cloud they do
    pushed = remembered(states, scores + 1.0, frame)
    assert pushed.findings()["mean_error"] > 0.5


def test_enough_is_what_ten_thousand_draws_know(gaussian):
    states, scores, mean, covariance = gaussian
    exact = frame_around(mean, covariance)
    assert not remembered(states, scores, exact).enough  # 40 steps are too few to say
    twice = jnp.concatenate([states, states]), jnp.concatenate([scores, scores])
    assert remembered(*twice, exact).enough  # control variates make a Gaussian exact
    assert not remembered(twice[0], jnp.zeros_like(twice[1]), exact).enough  # without them it is 2,000 draws
    apart = twice[0].at[:, : NUM // 2].add(100.0)
    assert not remembered(apart, twice[1], exact).enough


def test_states_outside_are_not_remembered(gaussian):
    states, scores, mean, covariance = gaussian
    frame = frame_around(mean, covariance)
    memory = remembered(states, scores, frame)
    after = memory.add(1e9 + states[0], scores[0, :, 0], scores[0], frame, remembering=~TRUE)
    for before, now in zip(memory.moments(), after.moments(), strict=True):
        np.testing.assert_array_equal(before, now)
    np.testing.assert_array_equal(memory.kept_states(), after.kept_states())


@pytest.mark.parametrize("num_steps", [3, 30, 1000])
def test_the_states_that_are_kept_are_spread_evenly_over_the_way(num_steps):
    """Each state is its own number, so that what is kept says when it was."""
    frame = frame_around(np.zeros(1), np.ones(1))
    start = Trajectory.empty(jnp.zeros((400, 1)), frame, num_steps)  # room for ten

    def add(step, memory):
        x = jnp.full((400, 1), step, jnp.float32)
        return memory.add(x, x[:, 0], x, frame, remembering=TRUE)

    memory = jax.jit(lambda memory: jax.lax.fori_loop(0, num_steps, add, memory))(start)
    times = memory.kept_states()[:, 0, 0]
    assert len(times) == min(num_steps, 10)
    assert np.all(np.diff(times) > 0)
    if num_steps > 10:
        assert times.min() < 0.35 * num_steps
        assert times.max() > 0.65 * num_steps
        assert abs(times.mean() / num_steps - 0.5) < 0.2
