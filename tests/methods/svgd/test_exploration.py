import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf
from steinflow.methods.svgd.exploration import Exploration

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


def moves(scores, fraction=0.0, seed=1):
    return Exploration().moves(-gaussian_scores(*scores.shape), scores, jnp.asarray(fraction), key=jax.random.key(seed))


def test_moves_leave_the_mean_of_the_cloud_alone():
    np.testing.assert_allclose(np.mean(moves(gaussian_scores() + 7.0), axis=0), 0.0, atol=1e-6)


def test_an_error_that_all_scores_share_drops_out():
    scores = gaussian_scores()
    np.testing.assert_allclose(moves(scores + 100.0), moves(scores), atol=1e-4)


def test_moves_are_a_langevin_step():
    """For a standard normal cloud, x + move keeps mean 0 and variance (1 - 0.05)^2 + 2 * 0.05."""
    scores = gaussian_scores()
    moved = -scores + moves(scores)
    np.testing.assert_allclose(np.var(moved, axis=0), 0.95**2 + 0.1, rtol=0.05)


@pytest.mark.parametrize("fraction", [0.5, 0.7, 1.0])
def test_no_moves_in_the_second_half(fraction):
    assert not np.any(moves(gaussian_scores(), fraction))


def test_no_moves_where_particles_are_no_more_than_dimensions():
    assert not np.any(moves(gaussian_scores(5, 5)))


def test_a_steep_score_takes_a_short_step():
    scores = 1e6 * gaussian_scores(100)
    steep = Exploration().moves(jnp.zeros_like(scores), scores, jnp.asarray(0.0), key=jax.random.key(1))
    assert np.all(np.linalg.norm(steep, axis=1) < 0.1 * np.sqrt(3) + 0.01)


def test_a_particle_far_out_comes_home_at_a_steady_rate():
    points = -gaussian_scores(100).at[0, 0].set(-30.0)
    move = Exploration().moves(points, -1e4 * points, jnp.asarray(0.0), key=jax.random.key(0))
    np.testing.assert_allclose(move[0, 0], -0.1 * 30 * 0.97, rtol=0.05)  # 0.97 is 1 - d/n


def test_places_average_to_the_particles():
    """Every other particle is the neighbour in turn, once on either side, so that linear scores keep their mean."""
    particles = jax.random.normal(jax.random.key(2), (7, 2))
    places = [Exploration().places(particles, jnp.asarray(step), jnp.asarray(1.0)) for step in range(0, 2 * 6 * 20, 20)]
    np.testing.assert_allclose(np.mean(places, axis=0), particles, atol=1e-6)
    width = 0.25 * 7**-0.5 * (1 - 2 / 7)
    deviations = particles - jnp.mean(particles, axis=0)
    np.testing.assert_allclose(places[0] - particles, width * jnp.roll(deviations, 1, axis=0), atol=1e-6)
    np.testing.assert_allclose(places[1] - particles, particles - places[0], atol=1e-6)
    assert len({np.asarray(place).tobytes() for place in places}) == len(places)


def test_a_place_is_kept_while_the_step_adapts():
    particles, one = jax.random.normal(jax.random.key(2), (7, 2)), jnp.asarray(1.0)
    first, last, next_one = (Exploration().places(particles, jnp.asarray(step), one) for step in (0, 19, 20))
    np.testing.assert_array_equal(first, last)
    assert np.any(first != next_one)


def test_steep_targets_are_looked_at_from_closer():
    particles = jax.random.normal(jax.random.key(2), (7, 2))
    wide, close = (Exploration().places(particles, jnp.asarray(0), jnp.asarray(value)) for value in (0.1, 100.0))
    np.testing.assert_allclose(close - particles, (wide - particles) / 10, rtol=1e-3)
    scores = gaussian_scores(4000, 50)
    for factor in (1.0, 10.0):
        np.testing.assert_allclose(Exploration().steepness(factor * scores + 7.0), factor**2, rtol=0.03)
    assert np.isfinite(Exploration().steepness(jnp.zeros((5, 2))))


def test_few_particles_are_looked_at_where_they_are():
    particles = gaussian_scores(5, 5)
    np.testing.assert_array_equal(Exploration().places(particles, jnp.asarray(3), jnp.asarray(1.0)), particles)


@pytest.mark.parametrize("num_steps", [300, 1000, 3000])
def test_nobody_creeps_away_in_long_runs(num_steps):
    """The funnel of eight schools: more steps must not widen the tail of tau."""
    start = jax.random.normal(jax.random.key(0), (100, 10))
    result = sf.fit(eight_schools, particles=start, num_steps=num_steps, progress=False)
    log_tau = np.asarray(result.particles[:, 1])
    assert 0.9 < np.std(log_tau) / 1.187 < 1.12
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
