"""The authors' code: its accumulator, and the call of docs/migration.md that moves particles as it does."""

import jax
import jax.numpy as jnp
import numpy as np
import own_loop
import pytest

import steinflow as sf
from steinflow.paper.authors import (
    TemperedSGLD,
    adagrad_with_momentum,
    large_start,
    num_dev_rows,
    with_dev_noise,
)
from steinflow.stein.bandwidths import Bandwidth
from steinflow.targets.flat import flatten

MEAN, PRECISION = np.array([-0.6871, 0.8010]), np.array([[0.2260, 0.1652], [0.1652, 0.6779]])


class Authors(Bandwidth):
    """med(r^2) / log(n + 1), the zeros of the diagonal among the distances."""

    def __call__(self, x):
        squares = jnp.sum((x[:, None] - x) ** 2, -1)
        return jnp.median(squares) / jnp.log(len(x) + 1)


def score(x):
    return -(x - MEAN) @ PRECISION


def published(x, step_size, num_steps, decay=0.9):
    """Their update: the kernel exp(-r^2 / h), the running mean of squared directions, 1e-6 in the denominator."""
    mean_square = None
    for _ in range(num_steps):
        squares = np.sum((x[:, None] - x) ** 2, -1)
        h = np.median(squares) / np.log(len(x) + 1)
        kernel = np.exp(-squares / h)
        repulsion = 2 / h * (x * kernel.sum(1, keepdims=True) - kernel @ x)
        direction = (kernel @ score(x) + repulsion) / len(x)
        mean_square = direction**2 if mean_square is None else decay * mean_square + (1 - decay) * direction**2
        x = x + step_size * direction / (1e-6 + np.sqrt(mean_square))
    return x


def test_the_authors_code(x64):
    start = np.random.default_rng(0).normal(size=(20, 2))
    method = sf.SVGD(sf.kernels.RBF(Authors()), sf.svgd.Euclidean(), adagrad_with_momentum(0.01))
    result = sf.fit(sf.from_score(score), method, particles=start, num_steps=50, progress=False)
    np.testing.assert_allclose(result.particles, published(start, 0.01, 50), atol=1e-8)


def test_authors_accumulator(dtype):
    """G_0 = g_0^2; G_t = 0.9 G + 0.1 g^2; a step of eps g / (1e-6 + sqrt G)."""
    gradients = np.random.default_rng(0).normal(size=(5, 3))
    optimizer = adagrad_with_momentum(0.01)
    state = optimizer.init(jnp.zeros(3, dtype))
    accumulator = gradients[0] ** 2
    for step, g in enumerate(gradients):
        updates, state = optimizer.update(jnp.asarray(g, dtype), state)
        accumulator = accumulator if step == 0 else 0.9 * accumulator + 0.1 * g**2
        np.testing.assert_allclose(updates, -0.01 * g / (1e-6 + np.sqrt(accumulator)), rtol=1e-4)
        assert updates.dtype == dtype


def test_a_zero_direction_is_safe():
    optimizer = adagrad_with_momentum(0.1)
    assert adagrad_with_momentum(0.1) is optimizer
    updates, _ = jax.jit(optimizer.update)(jnp.zeros(2), optimizer.init(jnp.zeros(2)))
    assert not jnp.any(updates)


def test_the_rate_taken_for_a_scale_starts_far_out():
    rng = np.random.default_rng(0)
    model = sf.models.LogisticRegression(rng.normal(size=(10, 3)), rng.normal(size=10) > 0)
    keys = jax.random.split(jax.random.key(0), 4000)
    draws = jax.vmap(lambda key: large_start(model, key))(keys)
    alpha = jnp.exp(draws["log_alpha"])
    np.testing.assert_allclose(jnp.mean(alpha), 0.01, rtol=0.1)  # of the prior: 100
    np.testing.assert_allclose(jnp.std(draws["w"] * jnp.sqrt(alpha)[:, None]), 1, rtol=0.05)


def test_dividing_the_drift_alone_samples_a_flatter_density():
    # n = 4 chains: the variance of p^(1/4) is 4. Over 2,000 groups of chains, since four points say little.
    x0 = jax.random.normal(jax.random.key(0), (2000, 4, 1))
    flat, _ = flatten(lambda x: -0.5 * jnp.sum(x**2), x0[0])
    method = TemperedSGLD(0.4, decay=0.0)
    keys = jax.random.split(jax.random.key(2), 2000)
    final = jax.jit(jax.vmap(lambda x, key: own_loop.run(method, flat, x, 200, key).particles))(x0, keys)
    assert jnp.var(final) == pytest.approx(4.0, rel=0.1)
    assert jnp.mean(final) == pytest.approx(0.0, abs=0.15)


def test_noise_of_held_out_rows(x64):
    rng = np.random.default_rng(0)
    X, dev = rng.normal(size=(50, 2)), slice(40, 45)
    y = 3 * X[:, 0] + rng.normal(size=50)
    model = sf.models.NeuralNetwork(X[:40], y[:40], hidden=(4,))
    particles = jax.vmap(model.sample_prior)(jax.random.split(jax.random.key(0), 3))
    tuned = with_dev_noise(model, particles, X[dev], y[dev])
    outputs = np.asarray(jax.vmap(lambda params: model.mean(params, X))(particles))
    # Gamma is on the scale of the standardised y.
    best = np.std(y[:40]) ** 2 / np.mean((y - outputs)[:, dev] ** 2, axis=1)
    np.testing.assert_allclose(np.exp(tuned["log_gamma"]), best, rtol=1e-9)
    assert tuned["weights"] is particles["weights"]
    assert num_dev_rows(455) == 46
    assert num_dev_rows(41157) == 500
