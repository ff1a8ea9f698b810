"""The step that tunes itself, and the defaults of SVGD that it belongs to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf


def moments(particles, mean, sd):
    """Error of the mean in sds, root mean square, and the smallest and largest ratio of the sds."""
    ratio = np.std(particles, axis=0) / sd
    return np.sqrt(np.mean(((np.mean(particles, axis=0) - mean) / sd) ** 2)), ratio.min(), ratio.max()


def gaussian(dim, condition, scale=1.0, distance=0.0):
    rng = np.random.default_rng(0)
    sds = scale * np.logspace(0, -0.5 * np.log10(condition), dim)
    rotation = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    mean = distance * scale * rng.standard_normal(dim)
    precision, center = jnp.asarray((rotation / sds**2) @ rotation.T), jnp.asarray(mean)
    return (
        lambda x: -0.5 * (x - center) @ precision @ (x - center),
        mean,
        np.sqrt(np.diag((rotation * sds**2) @ rotation.T)),
    )


@pytest.mark.parametrize(
    ("dim", "condition", "scale", "distance", "start_scale"),
    [
        (20, 1e3, 1.0, 0.0, 1.0),
        (50, 1e4, 1.0, 0.0, 1.0),
        (100, 1e4, 1.0, 0.0, 1.0),
        (20, 1e2, 1e-3, 0.0, 1.0),  # a cloud a thousand times too wide
        (20, 1e2, 1e3, 3.0, 1.0),  # and a thousand times too narrow
        (10, 1e2, 1.0, 1e3, 1e-3),  # far away and narrow
    ],
)
def test_gaussians_of_any_scale_and_condition(dim, condition, scale, distance, start_scale):
    log_density, mean, sd = gaussian(dim, condition, scale, distance)
    start = (start_scale * np.random.default_rng(1).standard_normal((100, dim))).astype(np.float32)
    result = sf.fit(log_density, particles=start, progress=False)
    error, low, high = moments(result.particles, mean, sd)
    assert error < 0.05
    assert low > 0.95
    assert high < 1.05


def test_fewer_particles_than_dimensions():
    log_density, mean, sd = gaussian(100, 1e2)
    start = np.random.default_rng(1).standard_normal((50, 100)).astype(np.float32)
    error, low, high = moments(sf.fit(log_density, particles=start, progress=False).particles, mean, sd)
    assert error < 0.05
    assert low > 0.85
    assert high < 1.1


def test_minibatches_move_the_cloud_and_keep_its_shape():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((10_000, 5))
    labels = np.where(rng.random(10_000) < 1 / (1 + np.exp(-features @ rng.standard_normal(5))), 1.0, -1.0)
    data = {"x": jnp.asarray(features), "y": jnp.asarray(labels)}

    def log_likelihood(weights, rows):
        return jax.nn.log_sigmoid(rows["y"] * (rows["x"] @ weights))

    def posterior(batch_size):
        return sf.Posterior(
            lambda w: -0.5 * w @ w, log_likelihood, data, batch_size, prior=lambda key: jax.random.normal(key, (5,))
        )

    whole = sf.fit(posterior(None), progress=False)
    parts = sf.fit(posterior(100), num_steps=3000, progress=False)
    error, low, high = moments(parts.particles, whole.mean(), whole.sd())
    assert error < 0.5  # 3000 batches hold 30 times the data; their noise alone is 0.2 sd
    assert low > 0.85
    assert high < 1.15


def test_affine_equivariance():
    """Whatever the units of the parameters, the same particles come out in those units."""
    start = np.random.default_rng(1).standard_normal((50, 3))
    units = np.array([[1e-3, 0.0, 0.0], [2.0, 40.0, 0.0], [0.0, 3.0, 1e3]])

    def log_density(x):
        return -jnp.sum(jnp.log1p(x**2)) - 0.1 * (x[0] - x[1] ** 2) ** 2 - 0.01 * x @ x

    inverse = np.linalg.inv(units)
    with jax.enable_x64(True):
        plain = sf.fit(log_density, particles=start, num_steps=100, progress=False)
        scaled = sf.fit(lambda y: log_density(inverse @ y), particles=start @ units.T, num_steps=100, progress=False)
        # Up to the shrinkage of the correlations, which is (d / 10n)^2 = 4e-5 here.
        np.testing.assert_allclose(np.asarray(scaled.particles) @ inverse.T, plain.particles, atol=0.02)


def test_no_move_is_longer_than_half_a_unit_and_nothing_is_nan():
    optimizer = sf.adaptive()
    params = jnp.zeros((4, 3))
    state = optimizer.init(params)
    for gradients in (1e30 * jnp.ones((4, 3)), jnp.full((4, 3), jnp.nan), jnp.zeros((4, 3)), jnp.eye(4, 3) * 1e20):
        moves, state = optimizer.update(gradients, state, params, fraction=jnp.asarray(0.0), num_steps=100, noisy=False)
        assert np.all(np.isfinite(moves))
        assert np.all(np.linalg.norm(moves, axis=1) <= 0.5 + 0.75 + 1e-6)
        assert np.all(np.isfinite(state.shift_size))


def test_the_step_size_falls_to_zero_at_the_end():
    optimizer = sf.adaptive()
    params = jnp.ones((4, 3))
    end = {"fraction": jnp.asarray(1.0), "num_steps": 100, "noisy": False}
    moves, _ = optimizer.update(params, optimizer.init(params), params, **end)
    np.testing.assert_allclose(moves, 0.0, atol=1e-6)


def test_in_long_runs_the_steps_of_the_shape_stay_small():
    optimizer = sf.adaptive()
    params = jnp.eye(4, 2)
    state = optimizer.init(params)
    for _ in range(50):  # the same direction again and again: step sizes grow as far as they may
        _, state = optimizer.update(params, state, params, fraction=jnp.asarray(0.0), num_steps=3000, noisy=False)
    np.testing.assert_allclose([state.shift_size, state.shape_size], [1.0, 300 / (1 - 2 / 4) / 3000], rtol=1e-6)
