"""SGLD, one chain and many: the closed-form stationary law of a constant step, and what minibatches leave unchanged."""

import german
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scenarios import gaussian

import steinflow as sf
from steinflow.targets.flat import flatten

COVARIANCE = np.array([[1.0, 0.8], [0.8, 2.0]])
MEAN = np.array([1.0, -1.0])


def stationary(covariance, step_size):
    """s^2 / (1 - delta / 4 s^2) in every principal direction."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors @ np.diag(values / (1 - step_size / (4 * values))) @ vectors.T


def test_parallel_chains_have_the_stationary_law_of_their_step():
    step_size, n = 0.5, 4000
    x0 = jax.random.normal(jax.random.key(0), (n, 2))
    method = sf.ParallelSGLD(step_size * n, decay=0.0)
    result = sf.fit(gaussian(MEAN, COVARIANCE), method, particles=x0, num_steps=100, key=1, progress=False)
    expected = stationary(COVARIANCE, step_size)
    assert expected[0, 0] > 1.1 * COVARIANCE[0, 0]  # the bias is there to be seen
    np.testing.assert_allclose(result.mean(), MEAN, atol=4 * np.sqrt(2.2 / n))
    np.testing.assert_allclose(np.cov(result.particles.T), expected, atol=0.1)


def test_one_chain_has_the_stationary_law_of_its_step():
    # The case of one dimension by hand: s = 1, delta = 0.5 gives 1.142857.
    np.testing.assert_allclose(stationary(np.eye(1), 0.5), 1.142857, rtol=1e-6)
    result = sf.fit(
        lambda x: -0.5 * jnp.sum((x - 2) ** 2),
        sf.SGLD(0.5, decay=0.0, thin=10),
        particles=jnp.zeros((5000, 1)),
        num_steps=51_000,
        key=0,
        progress=False,
    )
    assert result.mean()[0] == pytest.approx(2, abs=0.06)
    assert result.sd()[0] ** 2 == pytest.approx(1.142857, abs=0.09)


def test_a_partition_of_the_data_averages_to_the_full_score():
    rng = np.random.default_rng(0)
    data = {"X": rng.normal(size=(60, 3)), "y": rng.normal(size=60)}
    model = sf.models.LinearRegression(data["X"], data["y"], batch_size=20)
    flat, x = flatten(model, jax.vmap(model.sample_prior)(jax.random.split(jax.random.key(0), 5)))

    @jax.jit
    def scores(x):
        batches = [flat.minibatch(jax.random.key(3), jnp.asarray(step)) for step in range(3)]
        return sum(flat.scores(x, batch) for batch in batches) / 3, flat.scores(x)

    np.testing.assert_allclose(*scores(x), rtol=1e-4, atol=1e-3)


def test_last_iterates_are_kept():
    result = sf.fit(
        lambda x: -0.5 * jnp.sum(x**2), sf.SGLD(1e-3), particles=jnp.full((20, 1), 5.0), num_steps=30, progress=False
    )
    steps = jnp.diff(result.particles[:, 0])
    assert jnp.all(steps != 0)
    assert jnp.all(jnp.abs(steps) < 0.2)  # neighbours in time


def test_fewer_steps_than_particles_give_as_many_draws_as_steps():
    """The buffer of 20 is not full: the points that were never reached are no draws."""
    result = sf.fit(
        lambda x: -0.5 * jnp.sum(x**2), sf.SGLD(1e-3), particles=jnp.full((20, 1), 5.0), num_steps=7, progress=False
    )
    assert len(result) == 7
    assert len(set(np.asarray(result.particles[:, 0]).tolist())) == 7
    assert result.scores.shape == (7, 1)
    assert result.log_densities.shape == (7,)
    thinned = sf.SGLD(1e-3, thin=3)
    result = sf.fit(
        lambda x: -0.5 * jnp.sum(x**2), thinned, particles=jnp.full((20, 1), 5.0), num_steps=7, progress=False
    )
    assert len(result) == 2


def test_settings_are_checked():
    with pytest.raises(ValueError, match="positive"):
        sf.SGLD(0.0)
    with pytest.raises(ValueError, match="thin"):
        sf.SGLD(0.1, thin=0)


@pytest.mark.slow
def test_german():
    # Steps of 0.0005 are small against the posterior variances of 0.006 to 0.1: bias below the Monte Carlo error.
    n = 400
    result = sf.fit(
        german.model(), sf.ParallelSGLD(0.0005 * n, decay=0.0), num_particles=n, num_steps=1200, key=1, progress=False
    )
    error, ratio = german.errors(result)
    assert np.sqrt(np.mean(error**2)) < 2 / np.sqrt(n)
    assert np.max(np.abs(error)) < 0.2
    assert np.all((ratio > 0.87) & (ratio < 1.13))
    assert np.mean(ratio) == pytest.approx(1.0, abs=0.05)

    # Steps that are no longer small widen the spread, in the narrow directions most.
    wide = sf.fit(
        german.model(), sf.ParallelSGLD(0.008 * n, decay=0.0), num_particles=n, num_steps=300, key=1, progress=False
    )
    error, ratio = german.errors(wide)
    assert np.mean(ratio[1:]) > 1.1
