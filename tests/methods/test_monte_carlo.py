"""Exact Monte Carlo: the moments of the target, up to the error of independent draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf


def test_monte_carlo_draws_the_mixture_exactly():
    mixture = sf.models.GaussianMixture()
    result = sf.fit(mixture, sf.MonteCarlo(mixture.sample), num_particles=20_000, num_steps=1, key=0, progress=False)
    variance = 5 - 4 / 9
    assert result.mean()[0] == pytest.approx(2 / 3, abs=4 * np.sqrt(variance / 20_000))
    assert result.sd()[0] ** 2 == pytest.approx(variance, rel=0.03)


def test_monte_carlo_takes_a_sampler_in_the_users_space():
    target = sf.Density(lambda x: jnp.log(x) - x, constraints=sf.constraints.positive)
    method = sf.MonteCarlo(lambda key: jax.random.gamma(key, 2.0))
    result = sf.fit(target, method, particles=jnp.ones(5000), num_steps=1, key=0, progress=False)
    assert result.mean() == pytest.approx(2, abs=0.1)
    assert result.sd() ** 2 == pytest.approx(2, rel=0.12)
    np.testing.assert_allclose(result.dispersion, 1, atol=0.1)


def test_it_takes_a_function():
    with pytest.raises(TypeError, match="from a key to one draw"):
        sf.MonteCarlo(sf.models.GaussianMixture())
