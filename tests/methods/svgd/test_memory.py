import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from steinflow.methods.svgd.memory import Trajectory
from steinflow.methods.svgd.metrics import frame_of

NUM, DIM, STEPS = 50, 3, 40
TRUE = jnp.array([True])[0]


def remembered(states, scores, frame, *, steps=None):
    """The memory of these states (steps, n, d), one after the other."""
    memory = Trajectory.empty(states[0], len(states))
    add = jax.jit(Trajectory.add)
    for step, (x, s) in enumerate(zip(states, scores, strict=True)):
        memory = add(
            memory, x, frame.scores(s), frame, part=jnp.asarray(step / (steps or len(states))), remembering=TRUE
        )
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


def test_it_is_complete_when_nothing_more_is_to_come(gaussian):
    states, scores, mean, covariance = gaussian
    frame = frame_around(mean, covariance)
    assert remembered(states, scores, frame).complete
    assert not remembered(states[:20], scores[:20], frame, steps=40).complete


def test_states_outside_are_not_remembered(gaussian):
    states, scores, mean, covariance = gaussian
    frame = frame_around(mean, covariance)
    memory = remembered(states, scores, frame)
    after = memory.add(1e9 + states[0], scores[0], frame, part=jnp.asarray(2.0), remembering=~TRUE)
    for before, now in zip(jax.tree.leaves(memory.moments()), jax.tree.leaves(after.moments()), strict=True):
        np.testing.assert_array_equal(before, now)
    np.testing.assert_array_equal(memory.imprinted(states[-1], frame), after.imprinted(states[-1], frame))


def test_particles_take_on_the_marginals():
    """From an exponential distribution to the normal one that the trajectory saw."""
    rng = np.random.default_rng(1)
    states = jnp.asarray(rng.standard_normal((200, 50, 1)), jnp.float32)
    frame = frame_around(np.zeros(1), np.ones(1))
    particles = jnp.asarray(rng.exponential(size=(50, 1)), jnp.float32)
    imprinted = remembered(states, -states, frame).imprinted(particles, frame)
    np.testing.assert_array_equal(np.argsort(imprinted[:, 0]), np.argsort(particles[:, 0]))
    np.testing.assert_allclose(np.mean(imprinted), 0.0, atol=0.02)
    np.testing.assert_allclose(np.std(imprinted), 1.0, rtol=0.02)
    assert abs(np.mean(np.asarray(imprinted) ** 3)) < 0.2  # was 6


def test_particles_that_know_better_stay():
    """Few states say little: an even sample of the same distribution is left alone, but for chance."""
    rng = np.random.default_rng(2)
    particles = jnp.asarray(stats.norm.ppf((np.arange(100) + 0.5) / 100)[:, None], jnp.float32)
    states = jnp.asarray(rng.standard_normal((4, 100, 1)), jnp.float32)
    frame = frame_around(np.zeros(1), np.ones(1))
    imprinted = remembered(states, -states, frame).imprinted(particles, frame)
    np.testing.assert_allclose(imprinted, particles, atol=0.1)


def test_particles_stay_on_their_ridge():
    """Two coordinates that differ by a ten-thousandth of their sds still do, whatever the trajectory says of each."""
    rng = np.random.default_rng(3)
    along, across = rng.standard_normal((2, STEPS, NUM))
    states = jnp.asarray(np.stack([along, along + 1e-4 * across], axis=-1), jnp.float32)
    frame = frame_around(np.zeros(2), np.array([[1.0, 1 - 1e-6], [1 - 1e-6, 1.0]]))
    particles = 1.2 * states[0] + 0.3
    imprinted = remembered(states, jnp.zeros_like(states), frame).imprinted(particles, frame)
    assert np.max(np.abs(imprinted[:, 1] - imprinted[:, 0])) < 1e-3
    np.testing.assert_allclose(np.std(imprinted[:, 0]), 1.0, rtol=0.1)
