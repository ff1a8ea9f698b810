"""Priors of auxiliary parameters in their forms: those that formulas print, and draws from them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import steinflow as sf
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


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("alpha", "negbinomial"),
        ("kappa", "beta"),
        ("nu", "t"),
        ("zi", "zero_inflated_poisson"),
        ("hu", "hurdle_poisson"),
    ],
)
def test_formulas_have_the_same(name, family):
    y = [0.3, 0.6, 0.5, 0.2] if family == "beta" else [0.0, 2.0, 1.0, 4.0]
    prior = sf.formula("y ~ x", {"x": [0.0, 1.0, 2.0, 4.0], "y": y}, family=family).priors[name]
    values = np.array([0.2, 0.7])
    np.testing.assert_allclose(
        prior.log_prob(jnp.asarray(values, float)), PRIORS[name][0].logpdf(values), rtol=1e-5, atol=1e-6
    )
