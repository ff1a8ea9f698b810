import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf
from steinflow.methods.base import Time
from steinflow.methods.svgd.exploration import Barker, _steepness

EFFECTS = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def eight_schools(x):
    """Not centred: far out in tau the density stays high while its volume vanishes."""
    mean, log_tau, schools = x[0], x[1], x[2:]
    residuals = (EFFECTS - mean - jnp.exp(log_tau) * schools) / ERRORS
    prior = -0.5 * (mean / 5) ** 2 - jnp.log1p(jnp.exp(2 * log_tau) / 25) + log_tau - 0.5 * jnp.sum(schools**2)
    return prior - 0.5 * jnp.sum(residuals**2)


def gaussian_scores(num_particles=4000, dim=3):
    return -jax.random.normal(jax.random.key(0), (num_particles, dim))


def at(fraction):
    return Time(jnp.asarray(round(1000 * fraction)), jnp.asarray(1000))


def step_of(points, scores, fraction=0.0, seed=1):
    state = Barker().init(points)
    return Barker().moves(points, scores, state, time=at(fraction), key=jax.random.key(seed))[0]


def moves(scores, fraction=0.0):
    return step_of(-gaussian_scores(*scores.shape), scores, fraction)


def positions(particles, step, steepness=1.0):
    return Barker().positions(particles, jnp.asarray(steepness), time=Time(jnp.asarray(step), jnp.asarray(1000)))


def test_moves_leave_the_mean_of_the_cloud_alone():
    np.testing.assert_allclose(np.mean(moves(gaussian_scores() + 7.0), axis=0), 0.0, atol=1e-6)


def test_an_error_that_all_scores_share_drops_out():
    scores = gaussian_scores()
    np.testing.assert_allclose(moves(scores + 100.0), moves(scores), atol=1e-4)


def test_moves_keep_a_gaussian():
    """Over many small steps a standard normal cloud keeps its mean and its variance."""
    time, key = at(0.0), jax.random.key(3)

    def step(k, points):
        moves, _ = Barker(0.01).moves(points, -points, jnp.ones(()), time=time, key=jax.random.fold_in(key, k))
        return points + moves

    points = jax.lax.fori_loop(0, 500, step, -gaussian_scores())
    np.testing.assert_allclose(np.mean(points, axis=0), 0.0, atol=0.05)
    np.testing.assert_allclose(np.var(points, axis=0), 1.0, rtol=0.07)


def test_moves_keep_what_is_steep_in_places():
    """A mixture of a narrow and a wide Gaussian: a step that is shorter in the narrow one would fill it with mass."""

    def log_density(x):
        return jnp.logaddexp(jnp.log(0.5) - 0.5 * x**2, jnp.log(0.5 / 0.15) - 0.5 * (x - 4) ** 2 / 0.15**2)[0]

    wide = jax.random.normal(jax.random.key(0), (2000, 1))
    narrow = 4 + 0.15 * jax.random.normal(jax.random.key(1), (2000, 1))
    score = jax.vmap(jax.grad(log_density))

    def step(k, points):
        time, key = Time(jnp.asarray(0), jnp.asarray(1)), jax.random.fold_in(jax.random.key(2), k)
        moves, _ = Barker(step_size=0.01).moves(points, score(points), jnp.ones(()), time=time, key=key)
        return points + moves

    points = jax.lax.fori_loop(0, 1000, step, jnp.concatenate([wide, narrow]))
    np.testing.assert_allclose(np.mean(points > 3.3), 0.5, atol=0.05)


@pytest.mark.parametrize("fraction", [0.5, 0.7, 1.0])
def test_no_moves_in_the_second_half(fraction):
    assert not np.any(moves(gaussian_scores(), fraction))


def test_no_moves_where_particles_are_no_more_than_dimensions():
    assert not np.any(moves(gaussian_scores(5, 5)))


def test_a_steep_score_does_not_overshoot():
    """However steep the target, a move is no longer than its noise, and points home."""
    points = -gaussian_scores(100)
    move = step_of(points, -1e6 * points)
    size = np.sqrt(2 * 0.05)
    assert np.all(np.abs(move) < 6 * size)
    assert np.mean(np.sign(move) == -np.sign(points)) > 0.9
    np.testing.assert_allclose(np.mean(np.abs(move)), size * np.sqrt(2 / np.pi), rtol=0.15)


def test_positions_average_to_the_particles():
    """Every other particle is the neighbour in turn, once on either side, so that linear scores keep their mean."""
    particles = jax.random.normal(jax.random.key(2), (7, 2))
    around = [positions(particles, step) for step in range(0, 2 * 6 * 20, 20)]
    np.testing.assert_allclose(np.mean(around, axis=0), particles, atol=1e-6)
    width = 0.25 * 7**-0.5 * (1 - 2 / 7)
    deviations = particles - jnp.mean(particles, axis=0)
    np.testing.assert_allclose(around[0] - particles, width * jnp.roll(deviations, 1, axis=0), atol=1e-6)
    np.testing.assert_allclose(around[1] - particles, particles - around[0], atol=1e-6)
    assert len({np.asarray(position).tobytes() for position in around}) == len(around)


def test_a_position_is_kept_while_the_step_adapts():
    particles = jax.random.normal(jax.random.key(2), (7, 2))
    first, last, next_one = (positions(particles, step) for step in (0, 19, 20))
    np.testing.assert_array_equal(first, last)
    assert np.any(first != next_one)


def test_steep_targets_are_looked_at_from_closer():
    particles = jax.random.normal(jax.random.key(2), (7, 2))
    wide, close = (positions(particles, 0, steepness) for steepness in (0.1, 100.0))
    np.testing.assert_allclose(close - particles, (wide - particles) / 10, rtol=1e-3)
    scores = gaussian_scores(4000, 50)
    for factor in (1.0, 10.0):
        np.testing.assert_allclose(_steepness(factor * scores), factor**2, rtol=0.03)
    assert np.isfinite(_steepness(jnp.zeros((5, 2))))


def test_few_particles_are_looked_at_where_they_are():
    particles = gaussian_scores(5, 5)
    np.testing.assert_array_equal(positions(particles, 3), particles)


@pytest.mark.parametrize("num_steps", [300, 1000, 3000])
def test_nobody_creeps_away_in_long_runs(num_steps):
    """The funnel of eight schools: more steps must not widen the tail of tau. One particle decides much of its sd."""
    start = jax.random.normal(jax.random.key(0), (100, 10))
    runs = [sf.fit(eight_schools, particles=start, num_steps=num_steps, key=key, progress=False) for key in range(4)]
    log_tau = np.stack([np.asarray(run.particles[:, 1]) for run in runs])
    ratios = np.std(log_tau, axis=1) / 1.187
    assert 0.95 < np.mean(ratios) < 1.12
    assert np.max(ratios) < 1.25
    assert np.max(log_tau) < 3.6


@pytest.mark.parametrize("batch_size", [None, 500])
def test_a_start_hundreds_of_sds_wide(batch_size):
    """Linear regression from prior draws: 20,000 rows with little noise leave a ridge in (weights, noise)."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 4)).astype(np.float32)
    y = X @ [0.4, 0.3, 0.2, 0.1] + 0.05 * rng.standard_normal(len(X))
    model = sf.models.LinearRegression(X, y, batch_size=batch_size, standardize=False)
    result = sf.fit(model, num_particles=100, num_steps=1000, key=0, progress=False)
    weights, log_gamma = np.asarray(result.particles["w"]), np.asarray(result.particles["log_gamma"])
    H = np.column_stack([X, np.ones(len(X))])
    exact, residuals, *_ = np.linalg.lstsq(H, y, rcond=None)
    sd = np.sqrt(residuals / len(X) * np.diag(np.linalg.inv(H.T @ H)))
    assert np.all(np.abs(weights.mean(axis=0) - exact) < (0.05 if batch_size is None else 1.0) * sd)
    assert np.all(np.abs(weights.std(axis=0) / sd - 1) < 0.05)
    assert abs(log_gamma.std() / np.sqrt(2 / len(X)) - 1) < 0.15


def test_one_particle_climbs_without_noise():
    start = jnp.array([[3.0]])
    first, second = (
        sf.fit(lambda x: -jnp.sum(x**2), particles=start, num_steps=50, key=key, progress=False).particles
        for key in (0, 1)
    )
    np.testing.assert_array_equal(first, second)


def test_strays_come_home():
    start = jax.random.normal(jax.random.key(0), (100, 10)).at[:3, 1].set(7.0)  # three with tau = 1,100
    result = sf.fit(eight_schools, particles=start, num_steps=1000, key=0, progress=False)
    log_tau = result.particles[:, 1]
    # 40,000 draws of NUTS: 0.79 and 1.187, the largest exp(3.6).
    assert abs(np.mean(log_tau) - 0.79) < 0.1 * 1.187
    assert 0.9 < np.std(log_tau) / 1.187 < 1.1
    assert np.max(log_tau) < 4
