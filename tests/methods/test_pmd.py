"""Particle mirror descent: the tempered path of q_t in closed form, and where it fails."""

import functools

import german
import jax
import jax.numpy as jnp
import numpy as np
import own_loop
import pytest
from scenarios import gaussian, paper_mixture

import steinflow as sf
from steinflow.targets.flat import flatten


def tempered(gamma, t):
    """Mean and variance of p0 lik^beta, beta = 1 - (1 - gamma)^t, for prior N(0, 1) and posterior N(1, 0.2)."""
    beta = 1 - (1 - gamma) ** t
    precision = 1 + 4 * beta  # the likelihood is N(1.25, 1/4)
    return 5 * beta / precision, 1 / precision


@pytest.mark.slow
def test_mirror_descent_follows_the_tempered_path():
    method = sf.PMD(0.1, constant=True)
    flat, _ = flatten(sf.Density(lambda x: -0.5 * jnp.sum((x - 1) ** 2) / 0.2), jnp.zeros((1, 1)))

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(0, None))
    def run(key, t):
        start_key, key = jax.random.split(key)
        x0 = jax.random.normal(start_key, (600, 1))
        state = own_loop.run(method, flat, x0, 20, key, taken=t)
        weights, x = jnp.exp(state.log_weights), state.particles[:, 0]
        mean = weights @ x
        return mean, weights @ (x - mean) ** 2

    # One run of 600 particles is off by 0.04 or so; the average of 20 shows whether it goes the right way.
    keys = jax.random.split(jax.random.key(0), 20)
    for t, mean, variance in [(5, 0.7762, 0.3791), (10, 0.9033, 0.2774), (20, 0.9731, 0.2215)]:
        np.testing.assert_allclose(tempered(0.1, t), (mean, variance), atol=5e-5)
        found = jax.tree.map(jnp.mean, run(keys, jnp.asarray(t)))
        np.testing.assert_allclose(found[0], mean, atol=0.03)
        np.testing.assert_allclose(found[1], variance, atol=0.05)


def test_weights_sum_to_one():
    x0 = jax.random.normal(jax.random.key(0), (100, 1))
    result = sf.fit(lambda x: -jnp.sum(x**2), sf.PMD(), particles=x0, num_steps=5, progress=False)
    assert result.weights is not None
    assert jnp.sum(result.weights) == pytest.approx(1, abs=1e-5)
    assert jnp.std(result.weights) > 0


@pytest.mark.slow
def test_particles_collapse_beyond_one_dimension():
    covariance = np.array([[1.0, 0.8], [0.8, 2.0]])
    x0 = jax.random.normal(jax.random.key(0), (500, 2))
    result = sf.fit(gaussian([1.0, -1.0], covariance), sf.PMD(), particles=x0, num_steps=200, key=1, progress=False)
    np.testing.assert_allclose(result.mean(), [1, -1], atol=0.5)
    assert np.all(result.sd() ** 2 < 0.5 * np.diag(covariance))
    assert result.verdict.level == "bad"


@pytest.mark.slow
def test_it_fails_on_the_mixture_as_the_paper_says():
    scenario = paper_mixture()
    result = sf.fit(scenario.target, sf.PMD(), particles=scenario.particles(100), num_steps=500, key=0, progress=False)
    assert abs(result.mean()[0] - scenario.mean[0]) > 0.5


def test_points_outside_the_support_get_no_weight():
    target = sf.Density(lambda x: jnp.where(x[0] > 0, -x[0], -jnp.inf))
    x0 = jnp.linspace(-1, 2, 50)[:, None]
    result = sf.fit(target, sf.PMD(0.5, constant=True), particles=x0, num_steps=1, progress=False)
    outside = result.particles[:, 0] <= 0
    assert jnp.any(outside)
    assert jnp.all(result.weights[outside] == 0)


def test_constant_steps_are_checked():
    with pytest.raises(ValueError, match="between 0 and 1"):
        sf.PMD(constant=True)


@pytest.mark.slow
def test_german():
    # The paper's settings. The cloud finds the posterior roughly; its spread is too small, log alpha's most of all.
    result = sf.fit(german.model(), sf.PMD(), num_particles=300, num_steps=1000, key=1, progress=False)
    error, ratio = german.errors(result)
    assert np.sqrt(np.mean(error**2)) < 1.0
    assert 0.4 < np.mean(ratio[1:]) < 0.95
    assert ratio[0] < 0.6
