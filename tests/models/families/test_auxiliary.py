"""Priors of auxiliary parameters in their forms: those that formulas print, and draws from them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from steinflow.models.families.auxiliary import USUAL, log_prior, sample_prior

# The distribution of a parameter, and from its form to the parameter.
PRIORS = {
    "alpha": (stats.halfcauchy(), np.exp),
    "kappa": (stats.halfcauchy(), np.exp),
    "nu": (stats.gamma(2, scale=10), np.exp),
    "zi": (stats.uniform(), special.expit),
    "hu": (stats.uniform(), special.expit),
}


def test_all_but_sigma_have_one():
    assert set(PRIORS) == set(USUAL) - {"sigma"}


@pytest.mark.parametrize("name", PRIORS)
def test_densities_have_their_jacobian(name, x64):
    prior, inverse = PRIORS[name]
    x = np.linspace(-4, 4, 9)
    slopes = (inverse(x + 1e-6) - inverse(x - 1e-6)) / 2e-6
    found = np.array([float(log_prior({name: jnp.asarray(each)})) for each in x])
    difference = found - (prior.logpdf(inverse(x)) + np.log(slopes))
    np.testing.assert_allclose(difference, difference[0], atol=1e-7)


@pytest.mark.parametrize("name", PRIORS)
def test_draws_are_from_the_prior(name):
    prior, inverse = PRIORS[name]
    drawn = jax.jit(jax.vmap(lambda key: sample_prior(name, key)))(jax.random.split(jax.random.key(0), 4000))
    assert stats.kstest(inverse(np.asarray(drawn, float)), prior.cdf).pvalue > 1e-3


def test_several_add_up():
    both = {"alpha": jnp.asarray(0.3), "zi": jnp.asarray(-0.5)}
    parts = [float(log_prior({name: value})) for name, value in both.items()]
    assert float(log_prior(both)) == pytest.approx(sum(parts))
