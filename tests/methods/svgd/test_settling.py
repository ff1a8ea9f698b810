import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist
from scipy.stats import genpareto, norm

import steinflow as sf
from steinflow.methods.svgd.frames import frame_of
from steinflow.methods.svgd.memory import Trajectory
from steinflow.methods.svgd.recollection import Moments
from steinflow.methods.svgd.settling import (
    Draft,
    as_seen,
    calibrated,
    matched,
    settled,
    shaped,
    support_points,
    tails_of,
)

RNG = np.random.default_rng(0)
STATES = RNG.standard_normal((2000, 3)).astype(np.float32)


def energy_distance(points, states):
    """Up to what does not depend on the points."""
    return 2 * cdist(points, states).mean() - 2 * pdist(points).sum() / len(points) ** 2


def moments(mean, sd):
    nothing = np.zeros(len(mean))
    return Moments(np.asarray(mean, float), np.asarray(sd, float), nothing, nothing)


def test_support_points_have_less_energy_distance_than_any_draws():
    found = np.asarray(support_points(STATES[:50], STATES))
    draws = [STATES[RNG.choice(2000, 50)] for _ in range(100)]
    assert energy_distance(found, STATES) < min(energy_distance(each, STATES) for each in draws) - 1e-3


def test_support_points_are_those_of_many_steps_of_mak_and_joseph():
    def step(x):
        pull, push = 1 / np.maximum(cdist(x, STATES), 1e-6), 1 / (cdist(x, x) + np.diag(np.full(len(x), np.inf)))
        away = len(STATES) / len(x) * (push.sum(axis=1, keepdims=True) * x - push @ x)
        return (away + pull @ STATES) / pull.sum(axis=1, keepdims=True)

    start = x = STATES[:50]
    for _ in range(100):
        x = step(x)
    found, gain = support_points(start, STATES), energy_distance(start, STATES) - energy_distance(x, STATES)
    assert energy_distance(found, STATES) < energy_distance(x, STATES) + 0.03 * gain


def test_one_support_point_is_the_geometric_median():
    """The point of least total distance."""
    found = np.asarray(support_points(STATES[:1], STATES))[0]
    away = (found - STATES) / np.linalg.norm(found - STATES, axis=1, keepdims=True)
    np.testing.assert_allclose(away.sum(axis=0) / len(STATES), 0.0, atol=1e-3)


def test_points_that_coincide_are_no_trouble():
    found = np.asarray(support_points(np.tile(STATES[:1], (5, 1)), np.tile(STATES[:1], (40, 1))))
    np.testing.assert_allclose(found, np.tile(STATES[:1], (5, 1)), atol=1e-3)


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


def recalled(states, frame):
    """What is remembered of independent states, whose scores are noise and say nothing."""
    memory, noise = Trajectory.empty(states[0], frame, len(states)), np.random.default_rng(9)
    for x in states:
        once, pulls = jnp.ones(len(x)), jnp.asarray(100 * noise.standard_normal(x.shape), x.dtype)
        memory = memory.add(x, 0 * once, pulls, once, frame, remembering=jnp.asarray(True))
    return memory.recalled()


def flat(dim, constrain=lambda x: x):
    """A target of this dimension, whose user sees what `constrain` says."""

    class Seen(sf.Target):
        def log_density(self, params, batch=None):
            return jnp.sum(params)

        def constrain(self, params):
            return constrain(params)

    return sf.flatten(Seen(), jnp.zeros((2, dim)))[0]


@pytest.mark.parametrize("spread", [1.0, 3e-3])
def test_particles_represent_the_trajectory_and_stay_on_its_ridge(spread):
    """Two coordinates that differ by `spread` of their sds, and the particles start elsewhere."""
    along, across = RNG.standard_normal((2, 40, 50))
    states = jnp.asarray(np.stack([along, along + spread * across], axis=-1), jnp.float32)
    frame = frame_of(jnp.zeros(2), jnp.array([[1.0, 1.0], [1.0, 1.0 + spread**2]]))
    rows = np.asarray(states, float).reshape(-1, 2)
    found, tail = settled(flat(2), np.asarray(1.2 * states[0] + 0.3), recalled(states, frame))
    np.testing.assert_allclose(found.mean(axis=0), rows.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(found.std(axis=0), rows.std(axis=0), rtol=0.02)
    difference = found[:, 1] - found[:, 0]
    np.testing.assert_allclose(difference.std(), spread * across.std(), rtol=0.1)
    assert tail.length == 0  # nobody sees anything else


def test_where_everything_overflowed_the_particles_stay():
    states = jnp.full((5, 20, 2), jnp.inf)
    with np.errstate(invalid="ignore"):
        found, _ = settled(flat(2), np.asarray(STATES[:20, :2]), recalled(states, frame_of(jnp.zeros(2), jnp.ones(2))))
    np.testing.assert_array_equal(found, STATES[:20, :2])


def test_what_the_user_sees_has_the_mean_and_sd_of_the_states():
    """A scale, and effects that are products with it, as in eight schools: no coordinate alone says their sd."""

    def effects(x):
        tau = jnp.exp(0.7 * x[0])
        return {"tau": tau, "theta": x[1] + tau * x[2:], "constant": jnp.ones(2)}

    rng, target = np.random.default_rng(2), flat(8, effects)
    states = jnp.asarray(rng.standard_normal((40, 100, 8)), jnp.float32)
    frame = frame_of(jnp.zeros(8), jnp.ones(8))
    seen = np.asarray(target.user_numbers(states.reshape(-1, 8)))[:, 2:]  # beside the constants
    found, tail = settled(target, np.asarray(states[0]), recalled(states, frame))
    now = np.asarray(target.user_numbers(jnp.asarray(found, jnp.float32)))[:, 2:]
    np.testing.assert_allclose((now.mean(axis=0) - seen.mean(axis=0)) / seen.std(axis=0), 0.0, atol=0.01)
    np.testing.assert_allclose(now.std(axis=0) / seen.std(axis=0), 1.0, atol=0.02)
    assert 0.4 < tail.length < 0.7  # of a product of a log-normal and a normal number
    rows = np.asarray(states).reshape(-1, 8)
    np.testing.assert_allclose(found.mean(axis=0), rows.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(found.std(axis=0), rows.std(axis=0), rtol=0.03)


def test_an_sd_that_nobody_knows_moves_nothing():
    """That of a Cauchy variable is infinite."""
    target = flat(1, lambda x: jnp.tan(jnp.pi * (0.5 * jax.scipy.special.erfc(-x / 2**0.5) - 0.5)))
    states = np.random.default_rng(3).standard_normal((4000, 1))
    memory = recalled(jnp.asarray(states.reshape(40, 100, 1), jnp.float32), frame_of(jnp.zeros(1), jnp.ones(1)))
    points = states[:100]
    known = moments(points.mean(axis=0), points.std(axis=0))
    draft = Draft(points, states, known, np.eye(1), states, np.full(4000, 1 / 4000))
    found, tail = as_seen(target, memory, points, draft)
    np.testing.assert_allclose(found, points, atol=1e-6)
    assert tail.length > 0.9  # which the verdict says


def test_a_long_tail_has_the_sd_of_the_states():
    """A log-normal variable with a kurtosis of 104, of which a hundred quantiles have 90% of the sd."""
    target = flat(1, jnp.exp)
    states = 1.2 * norm.ppf((np.arange(4000)[:, None] + 0.5) / 4000)
    memory = recalled(jnp.asarray(states.reshape(40, 100, 1), jnp.float32), frame_of(jnp.zeros(1), jnp.ones(1)))
    points = shaped(states[::40], states)
    draft = Draft(points, states, moments([0.0], [np.std(states)]), None, states, np.full(4000, 1 / 4000))
    wanted = np.std(np.exp(states))
    assert np.std(np.exp(points)) < 0.92 * wanted
    found, _ = as_seen(target, memory, points, draft)
    np.testing.assert_allclose(np.std(np.exp(found)), wanted, rtol=0.01)


@pytest.mark.parametrize("k", [0.3, 0.6, 0.8])
def test_tails_are_as_long_as_those_of_pareto(k):
    """Squares that are Pareto's; beside them a column of normal numbers, and one of constants."""
    squares = genpareto.ppf((np.arange(40_000) + 0.5) / 40_000, k)
    seen = np.stack([np.sqrt(squares), RNG.standard_normal(40_000), np.ones(40_000)], axis=1).astype(np.float32)
    mean, sd = np.array([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]], np.float32)
    # Quantiles in place of draws have less of the last tail.
    np.testing.assert_allclose(tails_of(seen, mean, sd, np), [k, 0, 0], atol=0.06)
    np.testing.assert_allclose(tails_of(*map(jnp.asarray, (seen, mean, sd)), jnp), [k, 0, 0], atol=0.06)


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
    memory, rows = recalled(states, frame_of(jnp.zeros(2), jnp.full(2, 64.0))), u.reshape(-1, 2)
    weights = calibrated(rows, memory.frame, moments(rows.mean(axis=0) + 0.1, rows.std(axis=0)), np.eye(2))
    seen = np.exp(8 * rows)
    mean, moved = weights @ seen, np.exp(8 * (rows + 0.1)).mean(axis=0)
    truth = seen.mean(axis=0)
    assert np.all(np.abs(mean / truth - 1) < 0.4 * np.abs(moved / truth - 1))
