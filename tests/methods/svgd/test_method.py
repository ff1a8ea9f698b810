import jax.numpy as jnp
import naive
import numpy as np
import optax
from scenarios import normal_log_density

import steinflow as sf

X0 = 2 + np.random.default_rng(0).normal(size=(8, 2)).astype(np.float32)


def numpy_algorithm_1(x, num_steps, step_size):
    """Algorithm 1 with the median bandwidth and AdaGrad on a standard normal, in double precision."""
    x, total = x.astype(float), np.zeros(x.shape)
    for _ in range(num_steps):
        h = naive.median_distance(x) ** 2 / np.log(len(x))
        phi, _u = naive.radial_loops(x, -x, lambda t: np.exp(-t), lambda t: -np.exp(-t), lambda t: np.exp(-t), h)
        total += phi**2
        x = x + step_size * phi / np.sqrt(total)
    return x


def test_paper_is_algorithm_1(dtype):
    result = sf.fit(
        normal_log_density, sf.SVGD.paper(0.2), particles=jnp.asarray(X0, dtype), num_steps=10, progress=False
    )
    assert result.particles.dtype == dtype
    np.testing.assert_allclose(result.particles, numpy_algorithm_1(X0, 10, 0.2), rtol=2e-4, atol=2e-4)


def test_one_plain_step_is_x_plus_epsilon_phi():
    result = sf.fit(
        normal_log_density,
        sf.SVGD(kernel=sf.RBF(), metric=sf.Euclidean(), optimizer=optax.sgd(0.3)),
        particles=X0,
        num_steps=1,
        progress=False,
    )
    expected = X0 + 0.3 * np.asarray(sf.stein_direction(jnp.asarray(X0), -jnp.asarray(X0), sf.RBF()))
    np.testing.assert_allclose(result.particles, expected, rtol=1e-5)


def test_authors_first_step_is_a_sign():
    method = sf.SVGD(kernel=sf.RBF(), metric=sf.Euclidean(), optimizer=sf.adagrad_with_momentum(0.01))
    result = sf.fit(normal_log_density, method, particles=X0, num_steps=1, progress=False)
    np.testing.assert_allclose(np.abs(result.particles - X0), 0.01, rtol=1e-3)


def test_kernels_are_accepted_by_fit():
    for kernel in [sf.IMQ() + 0.1 * sf.Linear(), lambda x, y: jnp.exp(-jnp.sum((x - y) ** 2))]:
        method = sf.SVGD(kernel=kernel, metric=sf.Euclidean(), optimizer=sf.adagrad(0.3))
        result = sf.fit(normal_log_density, method, particles=X0, num_steps=100, progress=False)
        assert np.abs(np.mean(result.particles, axis=0)).max() < 0.5


def test_coinciding_particles_move_as_one():
    """All equal: gradient ascent, and they stay together."""
    x0 = np.full((10, 3), 0.7, np.float32)
    result = sf.fit(normal_log_density, sf.SVGD.paper(0.1), particles=x0, num_steps=20, progress=False)
    alone = sf.fit(normal_log_density, sf.SVGD.paper(0.1), particles=x0[:1], num_steps=20, progress=False)
    np.testing.assert_allclose(result.particles, np.tile(alone.particles, (10, 1)), atol=1e-4)
