"""Densities against SciPy's, sums to one, means and draws against the density."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from steinflow.models.formulas import FAMILIES
from steinflow.models.formulas.links import forward, to_form

MU, AUX = 0.3, {"sigma": -0.4, "nu": 1.5, "alpha": 0.6, "kappa": 1.2, "zi": -1.0, "hu": -0.5}
P, SIGMA, ALPHA, KAPPA = 1 / (1 + np.exp(-MU)), np.exp(-0.4), np.exp(0.6), np.exp(1.2)
ZI, HU = 1 / (1 + np.exp(1.0)), 1 / (1 + np.exp(0.5))
MEAN = np.exp(MU)
WEIBULL = MEAN / special.gamma(1 + 1 / ALPHA)
POISSON, NEGBINOMIAL = stats.poisson(MEAN), stats.nbinom(ALPHA, ALPHA / (ALPHA + MEAN))


def hurdle(base):
    above_zero = np.log1p(-HU) - np.log1p(-base.pmf(0))
    return lambda y: np.where(y == 0, np.log(HU), above_zero + base.logpmf(y))


def inflated(base):
    return lambda y: np.log(ZI * (y == 0) + (1 - ZI) * base.pmf(y))


COUNTS, REALS, POSITIVE = np.arange(5.0), np.linspace(-2, 2, 5), np.linspace(0.2, 4, 5)
KNOWN = {
    "gaussian": (REALS, stats.norm(MU, SIGMA).logpdf),
    "t": (REALS, stats.t(np.exp(1.5), MU, SIGMA).logpdf),
    "bernoulli": (np.array([0.0, 1.0]), stats.bernoulli(P).logpmf),
    "poisson": (COUNTS, POISSON.logpmf),
    "negbinomial": (COUNTS, NEGBINOMIAL.logpmf),
    "zero_inflated_poisson": (COUNTS, inflated(POISSON)),
    "zero_inflated_negbinomial": (COUNTS, inflated(NEGBINOMIAL)),
    "hurdle_poisson": (COUNTS, hurdle(POISSON)),
    "hurdle_negbinomial": (COUNTS, hurdle(NEGBINOMIAL)),
    "gamma": (POSITIVE, stats.gamma(ALPHA, scale=MEAN / ALPHA).logpdf),
    "lognormal": (POSITIVE, stats.lognorm(SIGMA, scale=MEAN).logpdf),
    "weibull": (POSITIVE, stats.weibull_min(ALPHA, scale=WEIBULL).logpdf),
    "exponential": (POSITIVE, stats.expon(scale=MEAN).logpdf),
    "beta": (np.linspace(0.1, 0.9, 5), stats.beta(P * KAPPA, (1 - P) * KAPPA).logpdf),
}


def forms_of(family, num_rows):
    return {name: jnp.full(num_rows, AUX.get(name, MU)) for name in ("mu", *family.auxiliary)}


@pytest.mark.parametrize("name", KNOWN)
def test_densities_are_those_of_scipy(name):
    y, expected = KNOWN[name]
    family = FAMILIES[name]()
    found = family.log_density(forms_of(family, len(y)), {"y": jnp.asarray(y, float)})
    np.testing.assert_allclose(found, expected(y), rtol=2e-5, atol=2e-5)


def test_a_binomial_counts_successes():
    rows = {"y": jnp.arange(4.0), "trials": jnp.full(4, 5.0)}
    found = FAMILIES["binomial"]().log_density({"mu": jnp.full(4, MU)}, rows)
    np.testing.assert_allclose(found, stats.binom(5, P).logpmf([0, 1, 2, 3]), rtol=1e-5)


@pytest.mark.parametrize("name", ["gaussian", "lognormal", "weibull", "exponential"])
def test_survival_is_the_rest_of_the_density(name):
    y, (low, high) = 1.3, (1.3, 60.0)
    family, grid = FAMILIES[name](), np.linspace(low, high, 20_001)
    density = np.exp(family.log_density(forms_of(family, len(grid)), {"y": jnp.asarray(grid, float)}))
    found = family.log_survival(forms_of(family, 1), {"y": jnp.array([y])})
    np.testing.assert_allclose(np.exp(found[0]), np.trapezoid(density, grid), rtol=2e-3)


@pytest.mark.parametrize("name", ["cumulative", "categorical"])
def test_classes_have_the_probabilities_of_their_means(name):
    family, y = FAMILIES[name](num_levels=4), jnp.arange(4)
    mu = jnp.full(4, MU) if name == "cumulative" else jnp.tile(jnp.array([0.3, -1.0, 0.5]), (4, 1))
    forms = {"mu": mu, "threshold": jnp.array([-1.0, 0.2, 3.0])}
    probabilities = family.mean(forms, {})[0]
    np.testing.assert_allclose(jnp.exp(family.log_density(forms, {"y": y})), probabilities, rtol=1e-5)
    np.testing.assert_allclose(jnp.sum(probabilities), 1.0, rtol=1e-6)
    gradient = jax.grad(lambda mu: jnp.sum(family.log_density({**forms, "mu": mu}, {"y": y})))(mu)
    assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize("name", KNOWN)
def test_draws_have_the_mean(name):
    family = FAMILIES[name]()
    forms = forms_of(family, 1)
    mean = np.full((1, 4000), family.mean(forms, {})[0])
    many = {name: np.full((1, 4000), float(values[0])) for name, values in forms.items()}
    drawn = family.sample(np.random.default_rng(0), many, mean, {})
    error = (drawn.mean() - mean[0, 0]) / drawn.std() * np.sqrt(drawn.size)
    assert abs(error) < 4
    assert family.check(drawn, "y").shape == (1, 4000)


@pytest.mark.parametrize("name", ["weibull", "lognormal", "beta"])
def test_draws_are_finite_however_wide_a_prior_is(name):
    family, rng = FAMILIES[name](), np.random.default_rng(0)
    forms = {form: 20 * rng.standard_normal((3, 50)) for form in ("mu", *family.auxiliary)}
    mean = np.asarray(family.mean({form: jnp.asarray(values, float) for form, values in forms.items()}, {}), float)
    assert np.all(np.isfinite(np.asarray(family.sample(rng, forms, mean, {}), np.float32)))


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_links_of_probabilities_go_forth_and_back(link):
    p = np.array([1e-4, 0.2, 0.5, 0.9])
    found = jax.nn.sigmoid(to_form(link, "logit", jnp.asarray(forward(link, p), float)))
    np.testing.assert_allclose(found, p, rtol=1e-3)
