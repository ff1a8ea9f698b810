import jax
import jax.numpy as jnp
import numpy as np
import pytest

from steinflow.methods.svgd.metrics import Cloud, Euclidean


def cloud(num_particles, dim, seed=0):
    rng = np.random.default_rng(seed)
    return jnp.asarray(5 + rng.standard_normal((num_particles, dim)) @ rng.standard_normal((dim, dim)), jnp.float32)


@pytest.mark.parametrize("metric", [Euclidean(), Cloud(), Cloud(max_dim=2)])
def test_scores_and_moves_follow_the_change_of_coordinates(metric):
    particles = cloud(40, 5)
    frame = metric.frame(particles)
    points = frame.points(particles)
    jacobian = jax.jacfwd(lambda u: frame.center + frame.moves(u))(points[0])
    scores = jnp.asarray(np.random.default_rng(1).standard_normal(particles.shape), jnp.float32)

    np.testing.assert_allclose(frame.center + frame.moves(points), particles, rtol=1e-4)
    np.testing.assert_allclose(frame.scores(scores), scores @ jacobian, rtol=1e-4, atol=1e-5)


def test_the_cloud_is_white_in_its_own_coordinates():
    points = Cloud().frame(cloud(4000, 4)).points(cloud(4000, 4))
    np.testing.assert_allclose(np.mean(points, axis=0), 0.0, atol=1e-3)
    np.testing.assert_allclose(np.cov(points.T), np.eye(4), atol=1e-2)


def test_beyond_max_dim_only_scales_are_used():
    frame = Cloud(max_dim=3).frame(cloud(50, 4))
    assert frame.factor.shape == (4,)
    np.testing.assert_allclose(np.std(frame.points(cloud(50, 4)), axis=0), 1.0, rtol=1e-4)


@pytest.mark.parametrize("num_particles", [1, 2, 5])
def test_fewer_particles_than_dimensions_and_no_spread(num_particles):
    flat = jnp.tile(jnp.arange(6.0), (num_particles, 1)).at[:, 0].add(jnp.arange(float(num_particles)))
    frame = Cloud().frame(flat)
    assert np.all(np.isfinite(frame.factor))
    assert np.all(np.isfinite(frame.points(flat)))


def test_particles_in_a_plane():
    line = jnp.linspace(-1.0, 1.0, 30)[:, None] * jnp.array([[1.0, 2.0, -1.0]])
    frame = Cloud().frame(line)
    assert np.all(np.isfinite(frame.points(line)))
