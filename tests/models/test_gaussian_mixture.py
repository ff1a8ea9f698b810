"""The paper's mixture: its moments in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf


def test_moments_of_the_papers_mixture():
    mixture = sf.models.GaussianMixture()
    grid = np.linspace(-12, 12, 20_001)
    density = np.exp(jax.vmap(mixture.log_density)(jnp.asarray(grid)[:, None]))
    weights = density * (grid[1] - grid[0])
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-4)
    np.testing.assert_allclose([mixture.mean()[0], mixture.second_moment()[0]], [2 / 3, 5], rtol=1e-6)
    np.testing.assert_allclose([weights @ grid, weights @ grid**2], [2 / 3, 5], rtol=1e-3)
    for frequency, phase in [(0.3, 0.1), (1.7, 5.0)]:
        by_hand = np.exp(-(frequency**2) / 2) * (
            np.cos(phase - 2 * frequency) / 3 + 2 * np.cos(phase + 2 * frequency) / 3
        )
        np.testing.assert_allclose(mixture.cosine(jnp.asarray(frequency), jnp.asarray(phase)), by_hand, rtol=1e-4)
        np.testing.assert_allclose(weights @ np.cos(frequency * grid + phase), by_hand, atol=1e-4)


def test_starts_far_to_the_left():
    draws = jax.vmap(sf.models.GaussianMixture().sample_prior)(jax.random.split(jax.random.key(0), 1000))
    np.testing.assert_allclose([jnp.mean(draws), jnp.std(draws)], [-10, 1], atol=0.15)


def test_any_dimension():
    mixture = sf.models.GaussianMixture(weights=(1, 3), means=((0, 0), (4, 0)), sds=(1, 2), start=(0.0, 1.0))
    draws = jax.vmap(mixture.sample)(jax.random.split(jax.random.key(0), 20_000))
    np.testing.assert_allclose(jnp.mean(draws, axis=0), mixture.mean(), atol=0.06)
    np.testing.assert_allclose(jnp.mean(draws**2, axis=0), mixture.second_moment(), rtol=0.03)
    with pytest.raises(ValueError, match="one entry per component"):
        sf.models.GaussianMixture(weights=(1, 1, 1))
