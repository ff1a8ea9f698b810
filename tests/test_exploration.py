import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf
from steinflow.exploration import Langevin


def gaussian_scores(num_particles=4000, dim=3):
    return -jax.random.normal(jax.random.key(0), (num_particles, dim))


def moves(scores, fraction=0.0, seed=1):
    return Langevin().moves(scores, jnp.asarray(fraction), key=jax.random.key(seed))


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
    steep = moves(1e6 * gaussian_scores(100))
    assert np.all(np.linalg.norm(steep, axis=1) < 0.1 * np.sqrt(3) + 0.01)


def test_one_particle_climbs_without_noise():
    start = jnp.array([[3.0]])
    first, second = (
        sf.fit(lambda x: -jnp.sum(x**2), particles=start, num_steps=50, key=key, progress=False).particles
        for key in (0, 1)
    )
    np.testing.assert_array_equal(first, second)


def test_strays_come_home():
    """Eight schools, not centred: far out in tau the density stays high while its volume vanishes."""
    effects = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    errors = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])

    def log_density(x):
        mean, log_tau, schools = x[0], x[1], x[2:]
        residuals = (effects - mean - jnp.exp(log_tau) * schools) / errors
        prior = -0.5 * (mean / 5) ** 2 - jnp.log1p(jnp.exp(2 * log_tau) / 25) + log_tau - 0.5 * jnp.sum(schools**2)
        return prior - 0.5 * jnp.sum(residuals**2)

    start = jax.random.normal(jax.random.key(0), (100, 10)).at[:3, 1].set(7.0)  # three with tau = 1,100
    result = sf.fit(log_density, particles=start, num_steps=1000, key=0, progress=False)
    log_tau = result.particles[:, 1]
    # 40,000 draws of NUTS: 0.80 and 1.16, the largest exp(3.6).
    assert abs(np.mean(log_tau) - 0.80) < 0.1 * 1.16
    assert 0.9 < np.std(log_tau) / 1.16 < 1.1
    assert np.max(log_tau) < 4
