import jax
import jax.numpy as jnp
import numpy as np
import pytest

from steinflow.methods.svgd.frames import frame_of
from steinflow.methods.svgd.settling import calibrated, matched, settled, shaped
from tests.helpers.trajectories import flat, moments, recalled_of

RNG = np.random.default_rng(0)
STATES = RNG.standard_normal((2000, 3)).astype(np.float32)


def test_shapes_are_those_of_the_states():
    """From an exponential distribution to a normal one, in the same order."""
    points = RNG.exponential(size=(50, 1))
    found = shaped(points, STATES[:, :1].astype(float))
    np.testing.assert_array_equal(np.argsort(found[:, 0]), np.argsort(points[:, 0]))
    np.testing.assert_allclose(found.std(), STATES[:, 0].std(), rtol=0.02)
    assert abs(np.mean(found**3)) < 0.2  # was 6


def test_mean_sds_and_correlations_are_matched_exactly():
    correlations = np.array([[1.0, 0.3, 0.0], [0.3, 1.0, -0.2], [0.0, -0.2, 1.0]])
    found = matched(STATES[:50].astype(float), moments([1, 2, 3], [0.7, 1.0, 1.3]), correlations)
    np.testing.assert_allclose(found.mean(axis=0), [1, 2, 3], atol=1e-9)
    np.testing.assert_allclose(found.std(axis=0), [0.7, 1.0, 1.3], rtol=1e-9)
    np.testing.assert_allclose(np.corrcoef(found, rowvar=False), correlations, atol=1e-9)


def test_no_more_points_than_dimensions_take_the_sds_alone():
    points = RNG.standard_normal((20, 100))
    found = matched(points, moments(np.ones(100), np.full(100, 3.0)), None)
    np.testing.assert_allclose(found.mean(axis=0), 1.0, atol=1e-9)
    np.testing.assert_allclose(found.std(axis=0), 3.0, rtol=1e-9)


@pytest.mark.parametrize("num_points", [41, 42, 60])
def test_hardly_more_points_than_dimensions_are_not_thrown_about(num_points):
    """Some directions have next to no spread: as they become as wide as the others, nobody comes to lie far out."""
    points = RNG.standard_normal((num_points, 40))
    found = matched(points, moments(np.zeros(40), np.ones(40)), np.eye(40))
    np.testing.assert_allclose(np.cov(found, rowvar=False, bias=True), np.eye(40), atol=1e-6)
    assert np.sqrt(np.mean((found - points) ** 2)) < 0.7
    assert np.max(np.linalg.norm(found, axis=1)) < 1.1 * np.max(np.linalg.norm(points, axis=1))


@pytest.mark.parametrize("spread", [1.0, 3e-3])
def test_particles_represent_the_trajectory_and_stay_on_its_ridge(spread):
    """Two coordinates that differ by `spread` of their sds, and the particles start elsewhere."""
    along, across = RNG.standard_normal((2, 40, 50))
    states = jnp.asarray(np.stack([along, along + spread * across], axis=-1), jnp.float32)
    frame = frame_of(jnp.zeros(2), jnp.array([[1.0, 1.0], [1.0, 1.0 + spread**2]]))
    rows = np.asarray(states, float).reshape(-1, 2)
    found, tail = settled(flat(2), np.asarray(1.2 * states[0] + 0.3), recalled_of(states, frame))
    np.testing.assert_allclose(found.mean(axis=0), rows.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(found.std(axis=0), rows.std(axis=0), rtol=0.02)
    difference = found[:, 1] - found[:, 0]
    np.testing.assert_allclose(difference.std(), spread * across.std(), rtol=0.1)
    assert tail.length == 0  # nobody sees anything else


def test_where_everything_overflowed_the_particles_stay():
    states = jnp.full((5, 20, 2), jnp.inf)
    with np.errstate(invalid="ignore"):
        found, _ = settled(
            flat(2), np.asarray(STATES[:20, :2]), recalled_of(states, frame_of(jnp.zeros(2), jnp.ones(2)))
        )
    np.testing.assert_array_equal(found, STATES[:20, :2])


@pytest.mark.parametrize("correlated", [True, False], ids=["correlations", "sds alone"])
def test_weighted_states_have_the_moments_in_the_coordinates_of_the_particles(correlated):
    rng = np.random.default_rng(4)
    states, wanted = rng.standard_normal((4000, 3)), moments([0.02, -0.03, 0.01], [1.02, 0.97, 1.0])
    correlations = np.array([[1.0, 0.05, 0.0], [0.05, 1.0, -0.03], [0.0, -0.03, 1.0]]) if correlated else None
    spread = np.diag([4.0, 1.0, 0.01]) + 0.05 if correlated else np.array([4.0, 1.0, 0.01])
    frame = jax.tree.map(lambda leaf: np.asarray(leaf, float), frame_of(jnp.zeros(3), jnp.asarray(spread)))
    weights = calibrated(states, frame, wanted, correlations)
    x, mean = frame.moves(states), frame.moves(wanted.mean)
    covariance = np.diag(wanted.sd) @ (np.eye(3) if correlations is None else correlations) @ np.diag(wanted.sd)
    factor = np.diag(frame.factor) if frame.factor.ndim == 1 else frame.factor
    np.testing.assert_allclose(np.sum(weights), 1.0, rtol=1e-9)
    np.testing.assert_allclose((weights @ x - mean) / x.std(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(weights @ (x - mean) ** 2, np.diag(factor @ covariance @ factor.T), rtol=1e-4)


def test_the_end_of_a_long_tail_stays_where_it_is():
    """exp(x) of an x that reaches far down, as a probability of what was never counted: moments that shift x by a tenth
    of an sd, for what happens in the tail, must not shift its upper end."""
    rng = np.random.default_rng(5)
    u = -rng.exponential(size=(40, 100, 2))
    states = jnp.asarray(8 * u, jnp.float32)
    memory, rows = recalled_of(states, frame_of(jnp.zeros(2), jnp.full(2, 64.0))), u.reshape(-1, 2)
    weights = calibrated(rows, memory.frame, moments(rows.mean(axis=0) + 0.1, rows.std(axis=0)), np.eye(2))
    seen = np.exp(8 * rows)
    mean, moved = weights @ seen, np.exp(8 * (rows + 0.1)).mean(axis=0)
    truth = seen.mean(axis=0)
    assert np.all(np.abs(mean / truth - 1) < 0.4 * np.abs(moved / truth - 1))
